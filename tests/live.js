// What the tests of the live figures ask their pages.

// Random numbers are the same in each run of the tests.
let seed = 1;
Math.random = () => (seed = seed * 48271 % 2147483647) / 2147483647;

window.ask = {
  /** The book's colors of a theme. */
  themed(theme) {
    document.documentElement.dataset.theme = theme;
    document.body.style.cssText = "color: var(--cb-ink); background: var(--cb-ground)";
  },

  /** What the figure says, with ordinary spaces. */
  said: () => document.querySelector(".cb-live-says").textContent.replaceAll("\u00a0", " "),

  // ---- TELL

  /** What is said of a stroke of points from 0 to 1 on the emptied square, drawn by a pointer. */
  draw(points) {
    const pad = document.querySelector(".cb-live-pad"), box = pad.getBoundingClientRect();
    document.querySelector(".cb-live-clear").click();
    pad.setPointerCapture = () => {};
    const tell = (kind, [x, y]) => pad.dispatchEvent(new PointerEvent(kind, {
      clientX: box.left + x * box.width, clientY: box.top + y * box.height, button: 0}));
    tell("pointerdown", points[0]);
    points.slice(1).forEach(point => tell("pointermove", point));
    tell("pointerup", points.at(-1));
    return ask.said();
  },

  /** Of a stroke as MNIST has it: the center of mass, x and y, and the height, in pixels. */
  centered(stroke) {
    const x = live.digit([stroke]);
    const of = weight => x.reduce((sum, value, i) => sum + value * weight(i), 0);
    const rows = [...x.keys()].filter(i => x[i] > 0.3).map(i => Math.floor(i / 28));
    return [of(i => i % 28 + 0.5) / of(i => 1), of(i => Math.floor(i / 28) + 0.5) / of(i => 1),
            Math.max(...rows) - Math.min(...rows) + 1];
  },

  /** The pictures of the walk between two centers: its ends, and what is between. */
  walk: () => [...document.querySelectorAll(".cb-live-walk canvas")].map(one => one.toDataURL()),

  /** The embeddings of images, and the images of the centers. */
  answers(text) {
    const tell = new live.Tell(live.networks.tell), bytes = live.unpack(text, Uint8Array);
    const embeddings = Array.from({length: bytes.length / 784}, (_, i) => [...tell.encode(
      Float32Array.from(bytes.slice(784 * i, 784 * (i + 1)), value => value / 255))]);
    return [embeddings, tell.centers.map(center => [...tell.decode(center)])];
  },

  // ---- weights

  /** Cuts of matrices with given labels, and what the page's own search finds. */
  cuts([text, size, labels]) {
    const given = live.unpack(text, Float32Array);
    const all = labels.map((_, i) =>
      new live.Coclustering(given.slice(size ** 2 * i, size ** 2 * (i + 1)), size));
    return [all.map((one, i) => one.cut(labels[i], 1 + Math.max(...labels[i].flat()))),
            all.map(one => one.search(2))];
  },

  /** Whether the chart holds all its bricks, flat ones. */
  stacked() {
    const chart = document.querySelector(".cb-live-chart").getBoundingClientRect();
    return [...document.querySelectorAll(".cb-live-bricks > *")].every(brick => {
      const {bottom, height} = brick.getBoundingClientRect();
      return bottom <= chart.bottom && height < chart.height / 9;
    });
  },

  /** What is read aloud from now on. */
  heard() {
    const says = document.querySelector(".cb-live-says"), heard = [];
    new MutationObserver(() => {
      if (says.getAttribute("aria-live") === "polite") heard.push(says.textContent);
    }).observe(says, {childList: true});
    return heard;
  },

  // ---- DeepCluster

  /** A step of k-means: labels, then with empty clusters refilled, then the means. */
  step([points, centers, draws]) {
    const labels = live.assign(points, centers);
    const full = live.splitEmpty(points, labels, centers, () => draws.shift() ?? 0);
    return [labels, full, live.means(points, full, centers)];
  },

  /** Where the centers are. */
  centers: () => [...document.querySelectorAll(".cb-live-plane b")].map(one => one.style.cssText),

  // ---- IDC

  /** Of rows in their own units: cluster, margin, gates. */
  rows([data, rows]) {
    const idc = new live.Idc(live.networks.idc[data]);
    return rows.map(row => {
      const {gates, cluster, margin} = idc.answer(row);
      return [cluster, margin, ...gates];
    });
  },

  /** While a feature has its least or its largest value: what is said, and each gate. */
  change([name, most]) {
    const all = [...document.querySelectorAll(".cb-live-features input")];
    const slider = all.find(input => input.ariaLabel === name), own = slider.value;
    const move = value => {
      slider.value = value;
      slider.dispatchEvent(new Event("input"));
    };
    move(most ? slider.max : slider.min);
    const told = ask.said(), gates = Object.fromEntries(all.map(input => [input.ariaLabel,
      [input.parentNode.dataset.gate, input.parentNode.querySelector("b").textContent]]));
    move(own);
    return [told, gates];
  },

  /** After each pixel is pressed: whether the shares of the clusters are the same, what is said. */
  pressed: () => [...document.querySelectorAll(".cb-live-features button")].map(pixel => {
    const shares = document.querySelector(".cb-live-clusters"), before = shares.innerHTML;
    pixel.click();
    return [shares.innerHTML === before, ask.said()];
  }),
};
