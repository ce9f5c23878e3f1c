/* IDC: change a measurement or a pixel of a row, and see its gates and its cluster; as src/clusterbook/idc
   does. */

/** IDC of a network in idc-weights.js: gating network, encoder and head, and how its rows are scaled. */
live.Idc = class {
  constructor(network) {
    for (const part of ["gating", "encoder", "head"]) this[part] = network[part].map(live.unpacked);
    Object.assign(this, {means: network.means, deviations: network.deviations});
  }

  /** A row in its own units (features), in those of the network. */
  scaled(row) {
    return Float32Array.from(row, (value, j) => (value - this.means[j]) / this.deviations[j]);
  }

  /** The gates of a scaled row without noise (features): ½ + μ, clipped to [0, 1]. */
  gates(x) { return live.forward(this.gating, x).map(mu => Math.min(Math.max(mu + 0.5, 0), 1)); }

  /** The head's softmax (clusters) for a scaled row, of which the encoder gets what passes its gates. */
  memberships(x, gates) {
    const gated = x.map((value, j) => value * gates[j]);
    const logits = live.forward(this.head, live.forward(this.encoder, gated));
    const powers = logits.map(value => Math.exp(value - Math.max(...logits)));
    return powers.map(value => value / powers.reduce((sum, power) => sum + power));
  }

  /** What is said of a row with its own or held gates: these, the softmax, its cluster and the margin. */
  answer(row, held) {
    const x = this.scaled(row), gates = held ?? this.gates(x), shares = this.memberships(x, gates);
    const [first, second] = [...shares.keys()].sort((i, j) => shares[j] - shares[i]);
    return {x, gates, shares, cluster: first, margin: shares[first] - shares[second]};
  }
};

/** What became of a gate. */
live.fate = (before, after) => after > 0 ? (before > 0 ? "stayed open" : "opened")
  : before > 0 ? "closed" : "stayed closed";

/** What a change of feature j did, from one answer to another, in sentences. */
live.told = (names, j, before, after) => {
  const fates = names.map((_, k) => live.fate(before.gates[k], after.gates[k]));
  const moved = Math.max(...names.map((_, k) => k !== j && Math.abs(after.gates[k] - before.gates[k])));
  const others = fate => {
    const found = names.filter((_, k) => k !== j && fates[k] === fate), more = found.length - 3;
    return found.length ? `Other gates ${fate}: ${found.slice(0, 3).join("; ")}`
      + (more > 0 ? ` and ${more} more. ` : ". ") : "";
  };
  const unseen = fates[j] === "stayed closed", [from, to] = [before, after].map(live.margin);
  return `${names[j]}: its gate ${fates[j]}${unseen ? ", so the encoder does not see the value" : ""}. `
    + (others("opened") + others("closed") || (unseen && !moved ? "Nothing changes. "
      : moved < 0.005 ? "No other gate moved noticeably. "
      : `No other gate opened or closed; they moved by up to ${moved.toFixed(2)}. `))
    + (before.cluster !== after.cluster ? `The cluster changed from ${before.cluster} to `
        + `${after.cluster}${unseen ? ", through the other gates" : ""}; the margin is ${to}.`
      : `The cluster is still ${after.cluster}; its margin `
        + (from === to ? `is still ${to}.` : `went from ${from} to ${to}.`));
};

/** A margin as text: never 1, which a softmax does not reach. */
live.margin = ({margin}) => margin >= 0.995 ? "above 0.99" : margin.toFixed(2);

live.figures.idc = (place, networks, find) => {
  const [data, choice] = place.querySelectorAll("select"), hold = find("input"), says = find(".cb-live-says");
  let network, idc, clusters, features;
  let row, now, before, touched, held;    // now: the answer; before: that before a feature was touched

  /** Show the answer to the row as it is, and what became of the gates. */
  const show = () => {
    now = idc.answer(row, held);
    clusters.forEach(({item, bar, value}, c) => {
      item.classList.toggle("cb-live-nearest", c === now.cluster);
      bar.style.width = `${100 * now.shares[c]}%`;
      value.textContent = now.shares[c].toFixed(2);
    });
    features.forEach(({item, pixel, slider, value, gate}, j) => {
      const [was, is] = [before ?? now, now].map(({gates}) => gates[j] ? gates[j].toFixed(2) : "closed");
      const distance = `${now.x[j] < 0 ? "−" : "+"}${Math.abs(now.x[j]).toFixed(1)} SD`;
      const text = Number(row[j].toPrecision(4)) + (pixel ? "" : ` (${distance})`);
      item.dataset.gate = live.fate((before ?? now).gates[j], now.gates[j]);
      item.style.setProperty("--gate", now.gates[j]);
      gate.textContent = was === is ? is : `${was} → ${is}`;
      value.textContent = text;
      value.classList.toggle("cb-live-changed", row[j] !== network.rows[choice.value].values[j]);
      slider.value = row[j];
      slider.setAttribute("aria-valuetext", `${text}, gate ${is}`);
      if (!pixel) return;
      pixel.dataset.gate = item.dataset.gate;
      pixel.style.setProperty("--value", row[j]);
      pixel.setAttribute("aria-label", `${network.names[j]}: ${text}, gate ${is}`);
    });
  };
  const change = (j, value) => {
    if (touched !== j) [before, touched] = [now, j];
    row[j] = value;
    show();
    live.say(says, live.told(network.names, j, before, now));
  };
  /** Begin with these values, and if it is asked hold the gates that they have. */
  const begin = values => {
    [row, before, touched, held] = [[...values], null, null, null];
    show();
    if (hold.checked) held = now.gates;
    live.say(says, `${row.filter((_, j) => now.gates[j]).length} of ${row.length} gates are open. `
      + `The ${network.one} is in cluster ${now.cluster}, margin ${live.margin(now)}.`);
  };
  /** Take the chosen row as it is stored, the groups with the most open gates first. */
  const take = () => {
    begin(network.rows[choice.value].values);
    const most = g => Math.max(...now.gates.filter((_, j) => j % network.groups.length === g));
    const groups = [...find(".cb-live-features").children];
    [...groups.keys()].sort((g, h) => most(h) - most(g)).forEach(g => groups[g].parentNode.append(groups[g]));
  };
  const pick = j => features.forEach(({item, pixel}, i) => {
    item.hidden = i !== j;
    pixel.tabIndex = i === j ? 0 : -1;
  });
  const addPixel = j => {
    const pixel = live.add(find(".cb-live-pixels"), "button", {type: "button"});
    const steps = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -network.side, ArrowDown: network.side};
    pixel.onfocus = () => pick(j);
    pixel.onclick = () => { pick(j); change(j, row[j] < 0.5 ? 1 : 0); };
    pixel.onkeydown = event => {
      if (!steps[event.key]) return;
      event.preventDefault();         // the page would scroll
      features[j + steps[event.key]]?.pixel.focus();
    };
    return pixel;
  };
  const addFeature = (name, j, groups) => {
    const item = live.add(groups[j % groups.length], "div", {class: "cb-live-feature"});
    live.add(item, "span", {}, network.kinds[Math.floor(j / groups.length)]);
    const slider = live.add(item, "input", {type: "range", "aria-label": name, step: "any",
                                            min: network.least[j], max: network.largest[j]});
    slider.oninput = () => change(j, slider.valueAsNumber);
    return {item, slider, value: live.add(item, "small"), gate: live.add(item, "b"),
            pixel: network.side && addPixel(j)};
  };
  /** Show another data set. */
  const use = () => {
    network = networks[data.value];
    idc = new live.Idc(network);
    for (const list of [".cb-live-clusters", ".cb-live-pixels", ".cb-live-features"].map(find).concat(choice))
      list.replaceChildren();
    place.querySelectorAll("[data-for]").forEach(part => { part.hidden = part.dataset.for !== data.value; });
    clusters = network.holds.map(({name, share}, c) => {
      const item = live.add(find(".cb-live-clusters"), "li");
      live.add(item, "span", {}, `cluster ${c}: ${Math.round(100 * share)}% ${name}`);
      const value = live.add(item, "b");
      return {item, value, bar: live.add(live.add(item, "span", {class: "cb-live-bar"}), "span")};
    });
    const groups = network.groups.map(name => {
      const group = live.add(find(".cb-live-features"), "div", {role: "group", "aria-label": name});
      live.add(group, "span", {class: "cb-live-group"}, name);
      return group;
    });
    features = network.names.map((name, j) => addFeature(name, j, groups));
    network.rows.forEach(({number, name, margin}, i) => live.add(
      choice, "option", {value: i}, `${number} (${name}${margin < 0.9 ? ", small margin" : ""})`));
    live.credit(find, network);
    take();
    if (network.side) pick(20);         // a pixel in the middle
  };
  choice.onchange = find("button").onclick = take;
  hold.onchange = () => begin(row);
  data.onchange = use;
  use();
};
