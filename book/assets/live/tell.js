/* TELL: draw a digit, and the network says which center is nearest; as src/clusterbook/tell does. */

/** TELL of a network in tell-weights.js: the encoder, the decoder, the centers. */
live.Tell = class {
  constructor(network) {
    this.encoder = network.encoder.map(live.unpacked);
    this.decoder = network.decoder.map(live.unpacked);
    this.centers = network.centers;
  }

  /** The embedding of an image (1, 28, 28): a unit vector of 10 numbers. */
  encode(x) { return live.normalize(live.forward(this.encoder, x)); }

  /** The image (1, 28, 28) that a unit vector stands for. */
  decode(z) { return live.forward(this.decoder, z); }

  /** Of an embedding to each center; the largest names the cluster. */
  cosines(z) { return this.centers.map(center => live.dot(z, center)); }

  /** The point at a share of the way between two centers, on the sphere. */
  between(from, to, share) {
    const [begin, end] = [this.centers[from], this.centers[to]];
    return live.normalize(begin.map((value, i) => (1 - share) * value + share * end[i]));
  }
};

/** Draw strokes [[x, y], …], this wide, in white on a canvas, scaled and then moved. */
live.draw = (canvas, size, strokes, wide, scale, x = 0, y = 0) => {
  canvas.width = canvas.height = size;
  const pen = canvas.getContext("2d", {willReadFrequently: true});
  pen.setTransform(scale, 0, 0, scale, x, y);
  Object.assign(pen, {lineWidth: wide, lineCap: "round", lineJoin: "round", strokeStyle: "#fff"});
  for (const stroke of strokes) {
    pen.beginPath();
    pen.moveTo(...stroke[0]);
    stroke.forEach(point => pen.lineTo(...point));
    pen.stroke();
  }
  return pen;
};

/** The strokes as MNIST has its digits: in a box of 20 pixels, their center of mass in the middle.
 * The image (1, 28, 28), or a sentence if that is no digit. */
live.digit = strokes => {
  const points = strokes.flat(), wide = 2.6;        // pixels of a stroke's width
  if (!points.length) return "Nothing is drawn yet.";
  const [left, top] = [0, 1].map(i => Math.min(...points.map(point => point[i])));
  const [right, bottom] = [0, 1].map(i => Math.max(...points.map(point => point[i])));
  const size = Math.max(right - left, bottom - top), scale = (20 - wide) / size;
  if (size < 0.1) return "That is a dot: draw a digit that fills most of the square.";
  const drawn = (x, y) => {       // with the middle of the box there
    const {data} = live.draw(document.createElement("canvas"), 28, strokes, wide / scale, scale,
      x - scale * (left + right) / 2, y - scale * (top + bottom) / 2).getImageData(0, 0, 28, 28);
    return Float32Array.from({length: 784}, (_, i) => data[4 * i + 3] / 255);
  };
  const first = drawn(14, 14), ink = live.sum(first);
  if (ink > 300) return "That is more ink than a digit has: clear, and draw lines.";
  const middle = weight => live.sum(first.map((value, i) => value * weight(i))) / ink + 0.5;
  return drawn(28 - middle(i => i % 28), 28 - middle(i => Math.floor(i / 28)));
};

live.figures.tell = (place, network, find) => {
  const tell = new live.Tell(network), all = selector => [...place.querySelectorAll(selector)];
  const named = j => `cluster\u00a0${j}`;
  const [given, made] = all(".cb-live-pair canvas"), pad = find(".cb-live-pad");
  const images = network.centers.map(center => tell.decode(center));
  const says = find(".cb-live-says"), [from, to] = all("select"), way = find("input");
  let strokes = [], open = null;
  const centers = images.map((image, j) => {
    const item = live.add(find(".cb-live-centers"), "li");
    live.add(item, "small", {}, named(j));
    live.paint(live.add(item, "canvas", {role: "img", "aria-label": `Center, ${named(j)}`}), image);
    const bar = live.add(live.add(item, "span", {class: "cb-live-bar"}), "span");
    const value = live.add(item, "b");
    live.add(item, "small", {}, network.holds[j]);
    [from, to].forEach(list => live.add(list, "option", {value: j}, named(j)));
    return {item, bar, value};
  });
  const walk = () => {
    const [begin, between, end] = all(".cb-live-walk canvas");
    live.paint(begin, images[from.value]);
    live.paint(between, tell.decode(tell.between(from.value, to.value, way.value / 100)));
    live.paint(end, images[to.value]);
    way.setAttribute("aria-valuetext", `${way.value}% of the way to ${named(to.value)}`);
  };
  /** Show what the network says of an image (1, 28, 28), or a sentence instead. */
  const answer = x => {
    const bad = typeof x === "string", z = bad ? null : tell.encode(x);
    const cosines = bad ? null : tell.cosines(z);
    const order = bad ? [] : [...cosines.keys()].sort((i, j) => cosines[j] - cosines[i]);
    const [first, second] = order;
    place.classList.toggle("cb-live-empty", bad);
    centers.forEach(({item, bar, value}, j) => {
      item.classList.toggle("cb-live-nearest", j === first);
      bar.style.width = `${bad ? 0 : 100 * Math.max(cosines[j], 0)}%`;
      value.textContent = bad ? "" : cosines[j].toFixed(2).replace("-", "−");
    });
    live.say(says, bad ? x : `Nearest is the center of ${named(first)}, cosine `
      + `${cosines[first].toFixed(2)}; this cluster holds ${network.holds[first]}. `
      + `Next, ${named(second)}, cosine ${cosines[second].toFixed(2)}. `
      + (cosines[first] - cosines[second] < 0.05 ? "That is almost a tie. " : "")
      + (cosines[first] < network.far ? "Only 1% of MNIST's digits are as far from every center." : ""));
    live.paint(given, bad ? new Float32Array(784) : x);
    live.paint(made, bad ? new Float32Array(784) : tell.decode(z));
    if (!bad) [from.value, to.value, way.value] = [first, second, 50];
    walk();
  };
  const redraw = () => live.draw(pad, 280, strokes, 0.086, 280);      // x and y are from 0 to 1
  const point = event => [event.offsetX, event.offsetY].map(
    pixels => Math.min(Math.max(pixels / pad.clientWidth, 0), 1));
  /** Begin anew: with a drawing, or with a stored digit, which is marked. */
  const clear = digit => {
    strokes = [];
    all(".cb-live-digits button").forEach(one => one.setAttribute("aria-pressed", one === digit));
    redraw();
  };
  pad.onpointerdown = event => {
    if (event.button || open) return;
    if (!strokes.length) clear();       // a stored digit
    pad.setPointerCapture(event.pointerId);
    strokes.push(open = [point(event)]);
    redraw();
  };
  pad.onpointermove = event => { if (open) { open.push(point(event)); redraw(); } };
  pad.onpointerup = pad.onpointercancel = () => {
    if (open) answer(live.digit(strokes));
    open = null;
  };
  find(".cb-live-clear").onclick = () => { clear(); answer(live.digit(strokes)); };
  network.digits.forEach((text, i) => {
    const x = live.pixels(text), label = `${i < 10 ? "A" : "A hard"} ${i % 10}`;
    const group = all(".cb-live-digits")[i < 10 ? 0 : 1];
    const button = live.add(group, "button", {type: "button", "aria-label": label, title: label});
    live.paint(live.add(button, "canvas"), x);
    button.onclick = () => { clear(button); live.paint(pad, x); answer(x); };
    if (i === 4) button.click();
  });
  [from, to, way].forEach(control => control.oninput = walk);
};
