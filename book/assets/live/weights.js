/* Weights: shuffle a layer, cluster it, note its cut; as src/clusterbook/weights does. A has absolute
   weights (rows, columns), row by row, none of which is all 0. Labels are [(rows), (columns)]. */

live.Coclustering = class {
  constructor(A, columns) {
    Object.assign(this, {A, sizes: [A.length / columns, columns]});
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
    return live.sum(this.volumes(labels, k).map((volume, c) => volume && 1 - inside[c] / volume));
  }

  /** Each neuron's entries in the first k singular vectors of the degree-scaled weights, at length 1,
   * rows before columns. Jacobi's rotations make two columns orthogonal at a time, until all are. */
  points(k) {
    const [rows, columns] = this.degrees, [n, m] = this.sizes;
    const both = Array.from(columns, (_, j) => new Float64Array(n + m).fill(1, n + j, n + j + 1));
    const left = both.map(column => column.subarray(0, n));         // of weights, above an identity
    this.each((a, i, j) => { left[j][i] = a / Math.sqrt(rows[i] * columns[j]); });
    for (let sweep = 0; sweep < 15; sweep++)
      for (let p = 0; p < m; p++)
        for (let q = p + 1; q < m; q++) {
          const pq = live.dot(left[p], left[q]);
          if (Math.abs(pq) < 1e-9) continue;
          const half = (live.dot(left[q], left[q]) - live.dot(left[p], left[p])) / (2 * pq);
          const tan = (half < 0 ? -1 : 1) / (Math.abs(half) + Math.hypot(1, half));
          const cos = 1 / Math.hypot(1, tan), sin = cos * tan, x = both[p], y = both[q];
          for (let i = 0; i < n + m; i++)
            [x[i], y[i]] = [cos * x[i] - sin * y[i], sin * x[i] + cos * y[i]];
        }
    const values = left.map(column => Math.sqrt(live.dot(column, column)));      // singular values
    const first = [...values.keys()].sort((p, q) => values[q] - values[p]).slice(0, k);
    return Array.from(both[0], (_, i) => live.normalize(
      first.map(p => both[p][i] / (i < n ? values[p] : 1))));
  }

  /** Labels in k clusters and their cut: the best of ten k-means, then moves while the cut shrinks. */
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
      const taken = Array.from(moved[side], () => Array(k).fill(0)), volumes = this.volumes(moved, k);
      this.each((a, ...ends) => { taken[ends[side]][moved[1 - side][ends[1 - side]]] += a; });
      moved[side] = taken.map(of => live.largest(of.map((a, c) => volumes[c] && a / volumes[c])));
    }
    return moved;
  }

  /** The same weights in random order. */
  shuffled() {
    const keyed = Array.from(this.A, a => [Math.random(), a]).sort(([x], [y]) => x - y);
    return new live.Coclustering(Float32Array.from(keyed, ([, a]) => a), this.sizes[1]);
  }

  /** Paint the weights, sorted by the labels, on the canvas of a place, and outline the blocks. */
  paint(place, labels, k, white) {
    const [rows, columns] = labels.map(side => [...side.keys()].sort((i, j) => side[i] - side[j]));
    live.paint(place.querySelector("canvas"), Float32Array.from(rows.flatMap(i =>
      columns.map(j => Math.min(this.A[i * columns.length + j] / white, 1)))));
    place.querySelectorAll("span").forEach(block => block.remove());
    for (let c = 0; c < k; c++) {
      const [top, left, height, width] = [label => label < c, label => label === c].flatMap(
        which => labels.map(side => `${100 * side.filter(which).length / side.length}%`));
      Object.assign(live.add(place, "span").style, {top, left, height, width});
    }
  }
};

/** Labels by k-means from a random start, and the squared distances to the centers, summed. */
live.kmeans = (points, k) => {
  let centers = live.firstCenters(points, k), labels = [], before;
  do {
    [before, labels] = [labels, live.assign(points, centers)];
    centers = live.means(points, labels, centers);
  } while (labels.some((label, i) => label !== before[i]));
  return {labels, inertia: live.sum(points.map((point, i) => live.squared(point, centers[labels[i]])))};
};

live.figures.weights = (place, network, find) => {
  const [own, last] = place.querySelectorAll(".cb-live-matrix");
  const bricks = find(".cb-live-bricks"), lines = find(".cb-live-lines");
  const [shuffle, play, clear] = place.querySelectorAll("button"), says = find(".cb-live-says");
  const A = live.unpack(network.weights, Float32Array), layer = new live.Coclustering(A, 128);
  const chosen = find("select"), white = A.slice().sort()[Math.floor(0.99 * A.length)];
  let k, value, cuts;

  const draw = () => {
    const [low, high] = network.ranges[k], n = cuts.length;
    const share = cut => Math.min(Math.max((cut - low) / (high - low), 0), 0.999);
    const line = (kind, cut, digits) => live.add(lines, "span", {
      class: `cb-live-${kind}`, style: `left: ${100 * share(cut)}%`}, cut.toFixed(digits));
    for (const list of [bricks, lines]) list.replaceChildren();
    cuts.forEach(cut => live.add(bricks, "span", {
      class: "cb-live-brick", style: `grid-column: ${1 + Math.floor(30 * share(cut))}`}));
    if (Math.abs(value - network.cuts[k]) > 1e-6) line("library", network.cuts[k], 4);
    line("value", value, 4);
    network.ticks[k].forEach(tick => line("tick", tick, 2));
    const below = cuts.filter(cut => cut <= value + 1e-9).length, mean = live.sum(cuts) / n;
    const p = (below + 1) / (n + 1);
    const z = (mean - value) / Math.sqrt(live.sum(cuts.map(cut => (cut - mean) ** 2)) / (n - 1));
    live.say(says, `The layer's cut with ${k} clusters is ${value.toFixed(4)}. `
      + (n ? `Shuffle ${n}: ${cuts.at(-1).toFixed(4)}. ${below} of ${n} are at most the layer's. ` : "")
      + (n > 1 ? `z = ${z.toFixed(1).replace("-0.0", "0.0")}, p = ${p.toFixed(2)}.` : "")
      + (n > 1 && k > 2 ? " Another search of the layer can give another p." : ""));
  };
  const drop = () => {
    const mixed = layer.shuffled(), {labels, cut} = mixed.search(k);
    cuts.push(cut);
    mixed.paint(last, labels, k, white);
    place.classList.remove("cb-live-empty");
    draw();
  };
  const stop = live.repeat(play, says, 30, 20, drop);
  const start = () => {
    stop();
    [k, cuts] = [+chosen.value, []];
    value = layer.search(k).cut;
    layer.paint(own, network.labels[k], k, white);
    place.classList.add("cb-live-empty");
    draw();
  };
  shuffle.onclick = drop;
  clear.onclick = chosen.onchange = start;
  start();
};
