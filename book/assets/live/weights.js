/* Weights: shuffle a layer, cluster each shuffle, count the cuts; as src/clusterbook/weights does.
   A holds absolute weights (rows, columns), row by row; each neuron has some. Labels are [(rows), (columns)]. */

live.Coclustering = class {
  constructor(A, columns) {
    this.A = A;
    this.sizes = [A.length / columns, columns];
    this.degrees = this.sizes.map(size => new Float64Array(size));      // [(rows), (columns)]
    this.each((a, i, j) => { this.degrees[0][i] += a; this.degrees[1][j] += a; });
  }

  /** Call what(weight, row, column) for each weight. */
  each(what) { this.A.forEach((a, i) => what(a, Math.floor(i / this.sizes[1]), i % this.sizes[1])); }

  /** The volume of each cluster: (k). */
  volumes(labels, k) {
    const volumes = Array(k).fill(0);
    labels.forEach((side, s) => side.forEach((c, i) => { volumes[c] += this.degrees[s][i]; }));
    return volumes;
  }

  /** The normalized cut: the share of each cluster's volume that leaves it, summed. */
  cut(labels, k) {
    const inside = Array(k).fill(0), [rows, columns] = labels;
    this.each((a, i, j) => { if (rows[i] === columns[j]) inside[rows[i]] += 2 * a; });
    return this.volumes(labels, k).reduce((sum, of, c) => sum + (of > 0 ? 1 - inside[c] / of : 0), 0);
  }

  /** Of each neuron, rows before columns, its entries in the first k singular vectors of the
   * degree-scaled weights, at length 1. Jacobi turns columns, two at a time, until all are orthogonal. */
  points(k) {
    const [n, m] = this.sizes, [rows, columns] = this.degrees;
    const left = Array.from({length: m}, () => new Float64Array(n));
    const right = left.map((_, j) => new Float64Array(m).fill(1, j, j + 1));
    this.each((a, i, j) => { left[j][i] = a / Math.sqrt(rows[i] * columns[j]); });
    for (let turned = true; turned;) {
      turned = false;
      for (let p = 0; p < m; p++)
        for (let q = p + 1; q < m; q++) {
          const pq = live.dot(left[p], left[q]);
          if (Math.abs(pq) < 1e-9) continue;
          turned = true;
          const half = (live.dot(left[q], left[q]) - live.dot(left[p], left[p])) / (2 * pq);
          const tan = (half < 0 ? -1 : 1) / (Math.abs(half) + Math.hypot(1, half));
          const cos = 1 / Math.hypot(1, tan), sin = cos * tan;
          for (const [x, y] of [[left[p], left[q]], [right[p], right[q]]])
            for (let i = 0; i < x.length; i++)
              [x[i], y[i]] = [cos * x[i] - sin * y[i], sin * x[i] + cos * y[i]];
        }
    }
    const values = left.map(column => Math.sqrt(live.dot(column, column)));      // singular values
    const first = [...values.keys()].sort((p, q) => values[q] - values[p]).slice(0, k);
    return [...Array.from(rows, (_, i) => first.map(p => left[p][i] / values[p])),
            ...Array.from(columns, (_, j) => first.map(p => right[p][j]))].map(live.normalize);
  }

  /** Labels in k clusters and their cut: the best of ten k-means, then moves while the cut gets smaller. */
  search(k) {
    const points = this.points(k), [n] = this.sizes;
    const found = Array.from({length: 10}, () => live.kmeans(points, k))
      .reduce((best, one) => one.inertia < best.inertia ? one : best).labels;
    let labels = [found.slice(0, n), found.slice(n)], cut = this.cut(labels, k);
    for (;;) {
      const moved = this.moved(labels, k), smaller = this.cut(moved, k);
      if (!(smaller < cut) || moved.some(side => new Set(side).size < k)) return {labels, cut};
      [labels, cut] = [moved, smaller];
    }
  }

  /** Rows, then columns, in the cluster that takes the most of their weight per volume. */
  moved(labels, k) {
    const moved = [...labels];
    for (const side of [0, 1]) {
      const taken = Array.from(this.degrees[side], () => Array(k).fill(0)), volumes = this.volumes(moved, k);
      this.each((a, ...ends) => { taken[ends[side]][moved[1 - side][ends[1 - side]]] += a; });
      moved[side] = taken.map(of => of.map((a, c) => volumes[c] > 0 ? a / volumes[c] : 0))
        .map(shares => shares.indexOf(Math.max(...shares)));
    }
    return moved;
  }

  /** The same weights in random order. */
  shuffled() {
    const A = this.A.slice();
    for (let i = A.length - 1; i > 0; i--) {
      const j = Math.floor(Math.random() * (i + 1));
      [A[i], A[j]] = [A[j], A[i]];
    }
    return new live.Coclustering(A, this.sizes[1]);
  }

  /** Paint the weights, sorted by the labels, on the canvas in a place, and outline the blocks. */
  paint(place, labels, k, white) {
    const orders = labels.map(side => [...side.keys()].sort((i, j) => side[i] - side[j])), m = this.sizes[1];
    live.paint(place.querySelector("canvas"), Float32Array.from(this.A, (_, i) =>
      Math.min(this.A[orders[0][Math.floor(i / m)] * m + orders[1][i % m]] / white, 1)));
    place.querySelectorAll("span").forEach(block => block.remove());
    for (let c = 0; c < k; c++) {
      const [top, left, height, width] = [label => label < c, label => label === c].flatMap(
        which => labels.map(side => 100 * side.filter(which).length / side.length));
      live.add(place, "span", {style: `top: ${top}%; left: ${left}%; height: ${height}%; width: ${width}%`});
    }
  }
};

live.figures.weights = (place, network) => {
  const find = selector => place.querySelector(selector), chosen = find("select"), says = find(".cb-live-says");
  const [own, last] = place.querySelectorAll(".cb-live-matrix"), chart = find(".cb-live-chart"), bins = 30;
  const [shuffle, play, clear] = place.querySelectorAll("button"), ends = find(".cb-live-ends").children;
  const layer = new live.Coclustering(
    Float64Array.from(live.unpack(network.weights, Float32Array)), network.labels[2][1].length);
  const white = [...layer.A].sort((a, b) => a - b)[Math.floor(0.99 * layer.A.length)];
  let k, value, cuts, waiting = 0;

  const draw = () => {
    const [low, high] = network.ranges[k], share = cut => Math.min(Math.max((cut - low) / (high - low), 0), 1);
    const inBin = cuts.map(cut => Math.min(Math.floor(bins * share(cut)), bins - 1)), heights = Array(bins).fill(0);
    const bricks = inBin.map(bin => [bin, heights[bin]++]), highest = Math.max(10, ...heights);
    const library = Math.abs(value - network.cuts[k]) > 1e-6;
    chart.replaceChildren();
    bricks.forEach(([bin, below]) => live.add(chart, "span", {class: "cb-live-brick", style: `left: ${
      100 * bin / bins}%; bottom: ${100 * below / highest}%; width: ${100 / bins}%; height: ${100 / highest}%`}));
    for (const [kind, cut] of [...library ? [["library", network.cuts[k]]] : [], ["value", value]])
      live.add(chart, "span", {class: `cb-live-${kind}`, style: `left: ${100 * share(cut)}%`});
    find(".cb-live-differs").hidden = !library;
    find(".cb-live-count").textContent = `${cuts.length} shuffle${cuts.length === 1 ? "" : "s"}`;
    [shuffle.disabled, play.textContent] = [waiting > 0, waiting ? "Stop" : "Play 30"];
    if (waiting) return;           // the sentence would be read aloud thirty times
    const n = cuts.length, below = cuts.filter(cut => cut <= value + 1e-9).length;
    const mean = cuts.reduce((sum, cut) => sum + cut, 0) / n;
    const sd = Math.sqrt(cuts.reduce((sum, cut) => sum + (cut - mean) ** 2, 0) / (n - 1));
    says.textContent = `The layer's cut with ${k} clusters is ${value.toFixed(4)}. `
      + (n ? `Shuffle ${n} has ${cuts[n - 1].toFixed(4)}. Of ${n}, ${below} have at most the layer's. ` : "")
      + (n > 1 ? `z = ${((mean - value) / sd).toFixed(1).replace("-", "−")}, `
                 + `p = ${((below + 1) / (n + 1)).toFixed(2)}.` : "");
  };
  const drop = () => {
    const mixed = layer.shuffled(), {labels, cut} = mixed.search(k);
    cuts.push(cut);
    mixed.paint(last, labels, k, white);
    place.classList.remove("cb-live-empty");
    draw();
  };
  const tick = () => { if (waiting) { waiting--; drop(); setTimeout(tick, 20); } };
  const start = () => {
    [k, cuts, waiting] = [+chosen.value, [], 0];
    value = layer.search(k).cut;
    layer.paint(own, network.labels[k], k, white);
    place.classList.add("cb-live-empty");
    [ends[0].textContent, ends[2].textContent] = network.ranges[k].map(end => end.toFixed(2));
    draw();
  };
  shuffle.onclick = drop;
  play.onclick = () => { waiting = waiting ? 0 : 30; draw(); setTimeout(tick); };
  clear.onclick = chosen.onchange = start;
  start();
  says.setAttribute("aria-live", "polite");       // from now on
  find(".cb-live-from").textContent =
    `live in your browser · network of ${network.profile}, seed ${network.seed}`;
};
