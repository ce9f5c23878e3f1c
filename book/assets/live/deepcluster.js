/* DeepCluster: k-means (in live.js) one step at a time; as src/clusterbook/deepcluster/clustering.py. */

/** Labels in which each empty cluster has part of a random other one; random(n) is a number below n. */
live.splitEmpty = (points, labels, centers, random) => {
  const full = [...labels], of = c => [...full.keys()].filter(i => full[i] === c);
  centers.forEach((_, empty) => {
    if (of(empty).length) return;
    const donors = [...centers.keys()].filter(c => of(c).length > 1);
    const donor = donors[random(donors.length)], signs = points[0].map(() => 2 * random(2) - 1);
    const side = live.dot(live.means(points, full, centers)[donor], signs), members = of(donor);
    const away = members.filter(i => live.dot(points[i], signs) > side);
    const half = members.slice(0, Math.floor(members.length / 2));          // of equal points
    (away.length % members.length ? away : half).forEach(i => { full[i] = empty; });
  });
  return full;
};

live.figures.deepcluster = (place, network, find) => {
  const [features, begin] = place.querySelectorAll("select"), plane = find(".cb-live-plane");
  const [step, play, clear] = place.querySelectorAll("button"), refill = find("input");
  const says = find(".cb-live-says"), pixels = live.pixels(network.images), size = 14 * 14, k = 8;
  const colors = "#0072B2 #D55E00 #009E73 #E69F00 #56B4E9 #CC79A7 #F0E442 #8A8F98".split(" ");
  const dots = network.classes.map(() => live.add(plane, "span"));
  const pictures = dots.map((_, i) => live.paint(
    document.createElement("canvas"), pixels.subarray(size * i, size * (i + 1))));
  const groups = colors.map((color, c) => {
    const item = live.add(find(".cb-live-groups"), "li"), style = `border-color: ${color}`;
    live.add(item, "b", {style}, c + 1);
    return {mark: live.add(plane, "b", {style}, c + 1), text: live.add(item, "span"),
            images: live.add(item, "span", {class: "cb-live-six"})};
  });
  let points, first, centers, labels, before, widest;     // before: what the last assignment said

  /** Show the clusters, with a ring around each image whose label is not the one it had. */
  const draw = (text, next, had = labels) => {
    const put = (mark, [x, y]) => Object.assign(mark.style, {
      left: `${50 + 50 * x / widest}%`, top: `${50 - 50 * y / widest}%`});
    dots.forEach((dot, i) => {
      put(dot, points[i]).background = colors[labels[i]] ?? "";
      dot.classList.toggle("cb-live-new", had.length > 0 && labels[i] !== had[i]);
    });
    groups.forEach(({mark, text, images}, c) => {
      const far = i => live.squared(points[i], centers[c]);
      const own = [...points.keys()].filter(i => labels[i] === c).sort((i, j) => far(i) - far(j));
      const counts = network.names.map((_, y) => own.filter(i => network.classes[i] === y).length);
      const most = live.largest(counts), percent = Math.round(100 * counts[most] / own.length);
      put(mark, centers[c]);
      text.textContent = own.length ? `${own.length}: ${percent}% ${network.names[most]}s`
        : labels.length ? "empty" : "";
      images.replaceChildren(...own.slice(0, 6).map(i => pictures[i]));
    });
    [step.textContent, step.disabled, play.disabled] = [next, next === "Ended", next === "Ended"];
    const full = new Set(labels).size;
    live.say(says, text + (full ? ` ${full} of ${k} clusters have images.` : ""));
  };
  /** Take the step that the button names, and answer whether it was the last. */
  const go = () => {
    const had = labels, count = from => labels.filter((c, i) => c !== from[i]).length;
    if (step.textContent === "Move") {
      centers = live.means(points, labels, centers);
      draw("Each center is now the mean of its images.", "Relabel");
    } else if (step.textContent === "Refill") {
      labels = live.splitEmpty(points, labels, centers, below => Math.floor(below * Math.random()));
      draw(`Each empty cluster got part of another one, ${count(had)} images in all.`, "Move", had);
    } else {
      labels = live.assign(points, centers);
      const changed = count(before), empty = new Set(labels).size < k;
      draw(changed ? `Each image has the label of its nearest center: ${changed} changed.`
        : "No label is new: k-means has ended. These are the labels that the network would learn.",
           !changed ? "Ended" : empty && refill.checked ? "Refill" : "Move", before);
      before = labels;
    }
    return step.disabled;
  };
  const stop = live.repeat(play, says, 300, 250, go);
  const start = text => {
    stop();
    [centers, labels, before] = [first, [], []];
    draw(`${text}No image has a label yet.`, "Assign");
  };
  const renew = () => {
    points = network.features[features.value];
    widest = 1.1 * Math.max(...points.flat().map(Math.abs));
    first = begin.value === "0" ? live.firstCenters(points, k) : network.corners[features.value];
    start("");
  };
  step.onclick = go;
  refill.onchange = () => start("The same start again, to compare both rules. ");
  features.onchange = begin.onchange = clear.onclick = renew;
  renew();
};
