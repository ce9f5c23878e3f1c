/* IDC: change a value of a row, and see its gates and its cluster; as src/clusterbook/idc does. */

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
    const passed = x.map((value, j) => value * gates[j]);
    const logits = live.forward(this.head, live.forward(this.encoder, passed));
    const powers = logits.map(value => Math.exp(value - Math.max(...logits)));
    return powers.map(value => value / live.sum(powers));
  }

  /** What is said of a row: the scaled row, gates, its own or held ones, softmax, cluster, margin. */
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
  const others = fate => names.filter((_, k) => k !== j && fates[k] === fate).join("; ");
  const list = fate => others(fate) && `Other gates ${fate}: ${others(fate)}. `;
  const unseen = fates[j] === "stayed closed", [from, to] = [before, after].map(live.margin);
  return `${names[j]}: its gate ${fates[j]}${unseen ? ", so the encoder does not see the value" : ""}. `
    + (list("opened") + list("closed") || (unseen && !moved ? "Nothing changes. "
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
  const [data, choice] = place.querySelectorAll("select"), hold = find("input");
  const says = find(".cb-live-says"), lists = [".cb-live-clusters", ".cb-live-features"].map(find);
  let network, idc, clusters, features, row, now;
  let touched, before, held;          // the feature that is changed, the answer before, held gates

  /** Show the answer to the row as it is, and what became of the gates. */
  const show = () => {
    now = idc.answer(row, held);
    clusters.forEach(({item, bar, value}, c) => {
      item.classList.toggle("cb-live-nearest", c === now.cluster);
      bar.style.width = `${100 * now.shares[c]}%`;
      value.textContent = now.shares[c].toFixed(2);
    });
    features.forEach(({item, slider, value, gate}, j) => {
      const gates = [before ?? now, now].map(answer => answer.gates[j]);
      const [was, is] = gates.map(open => open ? open.toFixed(2) : "closed");
      const distance = `${now.x[j] <= -0.05 ? "−" : "+"}${Math.abs(now.x[j]).toFixed(1)}\u00a0SD`;
      item.dataset.gate = live.fate(...gates);
      item.style = `--gate: ${gates[1]}; --value: ${row[j]}`;
      value.textContent = Number(row[j].toPrecision(4)) + (network.side ? "" : ` (${distance})`);
      value.classList.toggle("cb-live-changed", row[j] !== network.rows[choice.value].values[j]);
      gate.textContent = was === is ? is : `${was} → ${is}`;
      if (slider) slider.value = row[j];
      slider?.setAttribute("aria-valuetext", `${value.textContent}, gate ${is}`);
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
    live.say(says, `${now.gates.filter(gate => gate).length} of ${row.length} gates are open. `
      + `The ${network.one} is in cluster ${now.cluster}, margin ${live.margin(now)}.`);
  };
  const take = () => begin(network.rows[choice.value].values);
  /** A pixel is a button that makes it a quarter brighter, or white black; arrow keys move on. */
  const addPixel = (parent, name, j) => {
    const item = live.add(parent, "button", {type: "button", tabindex: j ? -1 : 0});
    const keys = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -network.side, ArrowDown: network.side};
    live.add(item, "span", {}, name);
    item.onfocus = () => features.forEach((one, i) => { one.item.tabIndex = i === j ? 0 : -1; });
    item.onclick = () => change(j, row[j] < 1 ? Math.min(row[j] + 0.25, 1) : 0);
    item.onkeydown = event => {
      if (!(event.key in keys)) return;
      event.preventDefault();         // the page would scroll
      features[j + keys[event.key]]?.item.focus();
    };
    return {item, value: live.add(item, "small"), gate: live.add(item, "b")};
  };
  const addMeasurement = (parent, name, j) => {
    const item = live.add(parent, "div", {class: "cb-live-measurement"});
    live.add(item, "span", {}, network.kinds[Math.floor(j / network.groups.length)]);
    const slider = live.add(item, "input", {type: "range", "aria-label": name, step: "any",
                                            min: network.least[j], max: network.largest[j]});
    slider.oninput = () => change(j, slider.valueAsNumber);
    return {item, slider, value: live.add(item, "small"), gate: live.add(item, "b")};
  };
  /** Show the chosen data set. */
  const use = () => {
    network = networks[place.dataset.shows = data.value];
    idc = new live.Idc(network);
    for (const list of [...lists, choice]) list.replaceChildren();
    clusters = network.holds.map((holds, c) => {
      const item = live.add(lists[0], "li");
      live.add(item, "span", {}, `cluster\u00a0${c}: ${holds}`);
      const bar = live.add(live.add(item, "span", {class: "cb-live-bar"}), "span");
      return {item, bar, value: live.add(item, "b")};
    });
    const groups = network.groups.map(
      name => live.add(lists[1], "div", {role: "group", "aria-label": name}));
    features = network.names.map((name, j) =>
      (network.side ? addPixel : addMeasurement)(groups[j % groups.length], name, j));
    network.rows.forEach(({name}, i) => live.add(choice, "option", {value: i}, name));
    take();
  };
  choice.onchange = find("button").onclick = take;
  hold.onchange = () => begin(row);
  data.onchange = use;
  use();
};
