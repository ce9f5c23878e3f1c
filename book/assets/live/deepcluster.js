/* DeepCluster: k-means one step at a time, as src/clusterbook/deepcluster/clustering.py takes it; the
   steps that other figures take too are in live.js. Points and centers are rows of numbers. */

/** Labels in which each empty cluster has part of a random other one; random(n) is a number below n. */
live.splitEmpty = (points, labels, centers, random) => {
  const full = [...labels], of = c => [...full.keys()].filter(i => full[i] === c);
  centers.forEach((_, empty) => {
    if (of(empty).length) return;
    const donors = [...centers.keys()].filter(c => of(c).length > 1), donor = donors[random(donors.length)];
    const signs = points[0].map(() => 2 * random(2) - 1), members = of(donor);
    const side = live.dot(live.means(points, full, centers)[donor], signs);
    const away = members.filter(i => live.dot(points[i], signs) > side);
    const parted = away.length % members.length ? away : members.slice(0, Math.floor(members.length / 2));
    parted.forEach(i => { full[i] = empty; });          // of equal points any half
  });
  return full;
};

live.figures.deepcluster = (place, network) => {
  const find = selector => place.querySelector(selector), plane = find(".cb-live-plane");
  const [features, begin] = place.querySelectorAll("select"), refill = find("input"), says = find(".cb-live-says");
  const [step, repeat, clear] = place.querySelectorAll("button"), n = network.classes.length;
  const colors = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#8A8F98"];
  const k = colors.length, pixels = live.unpack(network.images, Uint8Array), size = pixels.length / n;
  const sets = network.features.map(text => live.unpack(text, Float32Array))
    .map(numbers => network.classes.map((_, i) => [numbers[2 * i], numbers[2 * i + 1]]));
  const dots = network.classes.map(() => live.add(plane, "span"));
  const marks = colors.map((color, c) => live.add(plane, "b", {style: `background: ${color}`}, c + 1));
  const groups = colors.map((color, c) => {
    const item = live.add(find(".cb-live-groups"), "li");
    live.add(item, "b", {style: `background: ${color}`}, c + 1);
    return {text: live.add(item, "span"), images: Array.from({length: 6}, () => live.add(item, "canvas"))};
  });
  let points, centers, labels, before, widest;       // before: what the last assignment said

  const draw = (text, next) => {
    const put = (mark, [x, y]) => Object.assign(mark.style, {
      left: `${50 + 50 * x / widest}%`, top: `${50 - 50 * y / widest}%`});
    dots.forEach((dot, i) => { put(dot, points[i]); dot.style.background = colors[labels[i]] ?? ""; });
    groups.forEach(({text, images}, c) => {
      const far = i => live.squared(points[i], centers[c]);
      const own = [...points.keys()].filter(i => labels[i] === c).sort((i, j) => far(i) - far(j));
      const counts = network.names.map((_, digit) => own.filter(i => network.classes[i] === digit).length);
      const most = Math.max(...counts), percent = Math.round(100 * most / own.length);
      put(marks[c], centers[c]);
      text.textContent = own.length ? `${own.length}: ${percent}% ${network.names[counts.indexOf(most)]}s` : "empty";
      images.forEach((canvas, j) => {
        canvas.hidden = j >= own.length;
        live.paint(canvas, Float32Array.from({length: size}, (_, i) => pixels[size * own[j] + i] / 255));
      });
    });
    [step.textContent, step.disabled, repeat.disabled] = [next, next === "Ended", next === "Ended"];
    says.textContent = text + (labels.length ? ` ${new Set(labels).size} of ${k} clusters have images.` : "");
  };
  /** Assign each image, or move each center. */
  const go = () => {
    if (step.textContent === "Move") {
      const full = refill.checked ? live.splitEmpty(points, labels, centers, below => Math.floor(below * Math.random())) : labels;
      const filled = new Set(full).size - new Set(labels).size;
      labels = full;
      centers = live.means(points, labels, centers);
      return draw((filled ? `Refilled: ${filled}. ` : "") + "Each center is now the mean of its images.", "Relabel");
    }
    labels = live.assign(points, centers);
    const changed = labels.filter((label, i) => label !== before[i]).length;
    before = labels;
    draw(changed ? `Each image has the label of its nearest center: ${changed} have a new one.`
      : "No label is new: k-means has ended. These are the labels that the network would learn.",
         changed ? "Move" : "Ended");
  };
  const start = () => {
    [points, labels, before] = [sets[features.value], [], []];
    widest = 1.1 * Math.max(...points.flat().map(Math.abs));
    centers = begin.value === "0" ? live.firstCenters(points, k)
      : colors.map((_, c) => [0.55 + 0.12 * (c % 4), 0.8 + 0.12 * (c > 3)].map(share => share * widest));
    draw("", "Assign");
  };
  step.onclick = go;
  repeat.onclick = () => { for (let left = 200; left && !step.disabled; left--) go(); };
  features.onchange = begin.onchange = clear.onclick = start;
  start();
  says.setAttribute("aria-live", "polite");       // from now on
  find(".cb-live-from").textContent =
    `live in your browser · network of ${network.profile}, seed ${network.seed}`;
};
