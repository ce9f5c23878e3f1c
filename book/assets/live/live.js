/* What the live figures share: loading, tensors, drawing. Plain scripts, so that they also run from a
   file. A tensor is a Float32Array; its shape stands in the comment of what takes or returns it. An
   image has square channels, one after the other, each row by row. */

window.live = {figures: {}, networks: {}};
live.home = document.currentScript?.src;       // none where all of it is inside a notebook's output

// ---- loading: a figure's script and its network, when it comes near the screen
/** Run a script from beside this one. */
live.load = file => new Promise((loaded, failed) => {
  const script = document.createElement("script");
  script.src = new URL(file, live.home).href;
  script.onload = loaded;
  script.onerror = failed;
  document.head.append(script);
});

/** Put the live figure in the place of its picture; without its files the picture stays. */
live.start = async place => {
  const name = place.dataset.live, find = selector => place.querySelector(selector);
  if (!live.figures[name]) await live.load(`${name}.js`);
  if (!live.networks[name]) await live.load(`${name}-weights.js`);
  if (place.classList.contains("cb-live-runs")) return;
  place.append(find("template").content.cloneNode(true));
  live.figures[name](place, live.networks[name], find);
  find(".cb-live-says").setAttribute("aria-live", "polite");      // from now on
  place.classList.add("cb-live-runs");
};

live.watch = () => {
  const near = new IntersectionObserver(seen => seen.filter(one => one.isIntersecting).forEach(one => {
    near.unobserve(one.target);
    live.start(one.target).catch(() => {});
  }), {rootMargin: "600px 0px"});
  document.querySelectorAll("[data-live]:not(.cb-live-runs)").forEach(place => near.observe(place));
};

// ---- networks: what .github/scripts/live.py wrote of them, and the layers
/** The numbers of a text in base64: Float32Array, Int8Array or Uint8Array. */
live.unpack = (text, Kind) => new Kind(Uint8Array.from(atob(text), sign => sign.charCodeAt(0)).buffer);

/** The pixels of images, 0 black and 1 white, from bytes in base64. */
live.pixels = text => Float32Array.from(live.unpack(text, Uint8Array), value => value / 255);

/** A layer with its weights as numbers: an int8 times the scale of its output channel. */
live.unpacked = layer => {
  const scale = live.unpack(layer.scale, Float32Array), steps = live.unpack(layer.weight, Int8Array);
  const each = steps.length / scale.length;
  return {...layer, bias: live.unpack(layer.bias, Float32Array),
          weight: Float32Array.from(steps, (step, i) => step * scale[Math.floor(i / each)])};
};

/** W x + b, with x (inputs) and W (outputs, inputs): (outputs). */
live.linear = (x, {weight, bias}) => bias.map(
  (value, j) => value + live.dot(weight.subarray(j * x.length, (j + 1) * x.length), x));

/** An image with zeros around it, and between its pixels where a transposed convolution follows. */
live.padded = (x, channels, stretch) => {
  const side = Math.sqrt(x.length / channels), wide = side * stretch + 2;
  const y = new Float32Array(channels * wide * wide);
  x.forEach((value, i) => {
    const row = Math.floor(i / side), channel = Math.floor(row / side);
    y[(channel * wide + row % side * stretch + 1) * wide + i % side * stretch + 1] = value;
  });
  return y;
};

/** The convolution (outputs, …) of a padded image by 3 × 3 weights (outputs, inputs, 3, 3). */
live.convolution = (x, {weight, bias, shape: [outputs, inputs], stride}) => {
  const wide = Math.sqrt(x.length / inputs), across = (wide - 2) / stride;
  return new Float32Array(outputs * across * across).map((_, at) => {
    const row = Math.floor(at / across), o = Math.floor(row / across);
    let sum = bias[o];
    for (let i = 0; i < inputs; i++) {
      const from = (i * wide + row % across * stride) * wide + at % across * stride;
      for (let tap = 0; tap < 9; tap++)
        sum += weight[(o * inputs + i) * 9 + tap] * x[from + Math.floor(tap / 3) * wide + tap % 3];
    }
    return sum;
  });
};

live.activations = {none: a => a, relu: a => Math.max(a, 0), sigmoid: a => 1 / (1 + Math.exp(-a)),
                    tanh: Math.tanh};

/** What the layers of an encoder or decoder make of x. */
live.forward = (layers, x) => layers.reduce((x, layer) => {
  const y = layer.shape.length === 2 ? live.linear(x, layer)
    : live.convolution(live.padded(x, layer.shape[1], layer.stretch), layer);
  return y.map(live.activations[layer.activation]);
}, x);

live.dot = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };

/** The vector at length 1. */
live.normalize = z => {
  const length = Math.max(Math.sqrt(live.dot(z, z)), 1e-12);
  return z.map(value => value / length);
};

live.largest = numbers => numbers.indexOf(Math.max(...numbers));
live.sum = numbers => numbers.reduce((sum, value) => sum + value, 0);

// ---- k-means, as src/clusterbook/deepcluster/clustering.py has it; points and centers are rows
live.squared = (a, b) => live.sum(a.map((value, d) => (value - b[d]) ** 2));

/** The nearest center of each point: the largest inner product, less half the center's square. */
live.assign = (points, centers) => {
  const half = centers.map(own => live.dot(own, own) / 2);
  return points.map(point => live.largest(centers.map((own, c) => live.dot(point, own) - half[c])));
};

/** The mean of each cluster's points; an empty one keeps its center. */
live.means = (points, labels, centers) => centers.map((center, c) => {
  const own = points.filter((_, i) => labels[i] === c);
  return own.length ? center.map((_, d) => live.sum(own.map(point => point[d])) / own.length) : center;
});

/** k-means++: each next center is a point, drawn by its squared distance to the nearest one so far. */
live.firstCenters = (points, k) => Array(k).fill().reduce(centers => {
  const far = points.map(point => Math.min(1e9, ...centers.map(own => live.squared(point, own))));
  let drawn = Math.random() * live.sum(far);
  return [...centers, points[Math.max(far.findIndex(value => (drawn -= value) < 0), 0)]];
}, []);

// ---- the page
/** An element with attributes and text, put into its parent. */
live.add = (parent, kind, attributes = {}, text = "") => {
  const made = parent.appendChild(document.createElement(kind));
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  made.textContent = text;
  return made;
};

/** Say sentences in which no line ends between a number and its name. Safari before 16.4 can't read
 * a script with a lookbehind in it. */
live.say = (says, text) => {
  says.textContent = text.replace(/-(?=\d)/g, "−").replace(/([^.:;,]) (?=[−\d=])|(=) /g, "$1$2\u00a0");
};

/** Let a button repeat what() until it answers true, at most so many times, and be its own stop.
 * The sentence is read aloud at the end, not at each time. Returns what stops it. */
live.repeat = (button, says, times, pause, what) => {
  const label = button.textContent;
  let timer = 0;
  const stop = () => {
    clearTimeout(timer);
    [timer, button.textContent] = [0, label];
    says.setAttribute("aria-live", "polite");
    says.replaceChildren(says.textContent);         // only a change is read aloud
  };
  const next = left => {
    timer = setTimeout(next, pause, left - 1);
    if (what() || left === 1) stop();
  };
  button.onclick = () => {
    if (timer) return stop();
    button.textContent = "Stop";
    says.setAttribute("aria-live", "off");
    next(times);
  };
  return stop;
};

/** Paint an image (1, side, side), 0 black and 1 white, on a canvas of any size. */
live.paint = (canvas, x) => {
  const side = Math.sqrt(x.length), pixels = new ImageData(side, side);
  x.forEach((value, i) => pixels.data.set([255 * value, 255 * value, 255 * value, 255], 4 * i));
  canvas.width = canvas.height = side;
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return canvas;
};

if (document.readyState === "loading") addEventListener("DOMContentLoaded", live.watch);
else live.watch();
