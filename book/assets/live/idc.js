/* IDC: change a measurement of a row, and see its gates and its cluster; as src/clusterbook/idc does. */

/** IDC of a network in idc-weights.js: gating network, encoder and head, and how a table is scaled. */
live.Idc = class {
  constructor(network) {
    for (const part of ["gating", "encoder", "head"]) this[part] = network[part].map(live.unpacked);
    Object.assign(this, {means: network.means, deviations: network.deviations});
  }

  /** A row in the units of its table (features), in standard deviations from the means. */
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

  /** What is said of a row: the scaled row, its gates, the softmax, its cluster and the margin. */
  answer(row) {
    const x = this.scaled(row), gates = this.gates(x), shares = this.memberships(x, gates);
    const [first, second] = [...shares.keys()].sort((i, j) => shares[j] - shares[i]);
    return {x, gates, shares, cluster: first, margin: shares[first] - shares[second]};
  }
};

/** What a change of measurement j did, from one answer to another, in sentences. */
live.told = (names, j, before, after) => {
  const list = found => found.length < 4 ? found.map(k => names[k]).join(", ")
    : `${found.slice(0, 2).map(k => names[k]).join(", ")} and ${found.length - 2} more`;
  const others = names.map((_, k) => k).filter(k => k !== j);
  const opened = others.filter(k => !before.gates[k] && after.gates[k]);
  const closed = others.filter(k => before.gates[k] && !after.gates[k]);
  const moved = Math.max(...others.map(k => Math.abs(after.gates[k] - before.gates[k])));
  const was = before.gates[j] > 0, is = after.gates[j] > 0, unseen = !was && !is;
  const own = was === is ? `stayed ${is ? "open" : "closed"}` : is ? "opened" : "closed";
  const [from, to] = [before, after].map(live.margin);
  return `${names[j]}: its gate ${own}${unseen ? ", so the encoder does not see the value" : ""}. `
    + (opened.length ? `Other gates opened: ${list(opened)}. ` : "")
    + (closed.length ? `Other gates closed: ${list(closed)}. ` : "")
    + (opened.length || closed.length ? "" : moved < 0.005 ? "No other gate moved noticeably. "
      : `No other gate opened or closed; they moved by up to ${moved.toFixed(2)}. `)
    + (before.cluster !== after.cluster ? `The cluster changed from ${before.cluster} to `
        + `${after.cluster}${unseen ? ", through the other gates" : ""}; the margin is ${to}.`
      : `The cluster is still ${after.cluster}; its margin `
        + (from === to ? `is still ${to}.` : `went from ${from} to ${to}.`));
};

/** A margin as text: never 1, which a softmax does not reach. */
live.margin = ({margin}) => margin >= 0.995 ? "above 0.99" : margin.toFixed(2);

live.figures.idc = (place, network) => {
  const find = selector => place.querySelector(selector), idc = new live.Idc(network);
  const {names} = network, says = find(".cb-live-says"), choice = find("select");
  let row, now, before, touched;      // values, the answer, that before a measurement was touched, which

  const clusters = network.holds.map(({name, share}, c) => {
    const item = live.add(find(".cb-live-clusters"), "li");
    live.add(item, "span", {}, `cluster ${c}: ${Math.round(100 * share)}% ${name}`);
    const value = live.add(item, "b");
    return {item, value, bar: live.add(live.add(item, "span", {class: "cb-live-bar"}), "span")};
  });
  const features = names.map((name, j) => {
    const item = live.add(find(".cb-live-features"), "li");
    live.add(item, "span", {}, name);
    const value = live.add(item, "small");
    const slider = live.add(item, "input", {type: "range", "aria-label": name, step: "any",
                                            min: network.least[j], max: network.largest[j]});
    const bar = live.add(live.add(item, "span", {class: "cb-live-bar"}), "span");
    const gate = live.add(item, "b");
    slider.oninput = () => change(j, slider.valueAsNumber);
    return {item, bar, gate, value, slider};
  });

  /** Show the answer to the row as it is. */
  const show = () => {
    now = idc.answer(row);
    clusters.forEach(({item, bar, value}, c) => {
      item.classList.toggle("cb-live-nearest", c === now.cluster);
      bar.style.width = `${100 * now.shares[c]}%`;
      value.textContent = now.shares[c].toFixed(2);
    });
    features.forEach(({item, bar, gate, value, slider}, j) => {
      const distance = `${now.x[j] < 0 ? "−" : "+"}${Math.abs(now.x[j]).toFixed(1)} SD`;
      const text = `${Number(row[j].toPrecision(4))} (${distance})`;
      item.classList.toggle("cb-live-shut", !now.gates[j]);
      bar.style.width = `${100 * now.gates[j]}%`;
      gate.textContent = now.gates[j] ? now.gates[j].toFixed(2) : "closed";
      value.textContent = text;
      value.classList.toggle("cb-live-changed", row[j] !== network.rows[choice.value].values[j]);
      slider.setAttribute("aria-valuetext", `${text}, gate ${gate.textContent}`);
    });
  };
  const change = (j, value) => {
    if (touched !== j) [before, touched] = [now, j];
    row[j] = value;
    show();
    says.textContent = live.told(names, j, before, now);
  };
  const take = () => {
    row = [...network.rows[choice.value].values];
    touched = null;
    show();
    features.forEach(({slider}, j) => { slider.value = row[j]; });
    [...names.keys()].sort((i, j) => now.gates[j] - now.gates[i])
      .forEach(j => find(".cb-live-features").append(features[j].item));
    says.textContent = `${now.gates.filter(gate => gate).length} of ${names.length} gates are open. `
      + `The row is in cluster ${now.cluster}, margin ${live.margin(now)}.`;
  };

  network.rows.forEach(({number, name, margin}, i) => live.add(
    choice, "option", {value: i}, `${number} (${name}${margin < 0.9 ? ", small margin" : ""})`));
  choice.onchange = find("button").onclick = take;
  take();
  says.setAttribute("aria-live", "polite");       // from now on
  find(".cb-live-from").textContent =
    `live in your browser · network of ${network.profile}, seed ${network.seed}`;
};
