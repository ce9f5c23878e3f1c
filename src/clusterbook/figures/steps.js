for (const figure of document.querySelectorAll("div.cb-steps[data-values]:not([data-ready])")) {
  figure.dataset.ready = "yes";
  const steps = [...figure.querySelectorAll(".cb-step")];
  const values = JSON.parse(figure.dataset.values), names = JSON.parse(figure.dataset.names);
  const add = (parent, kind, attributes = {}, text = "") => {
    const made = parent.appendChild(document.createElement(kind));
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    made.textContent = text;
    return made;
  };
  const bar = add(figure, "div", {class: "cb-steps-bar", role: "group",
                                  "aria-label": "Positions of the figure"});
  const button = (label, sign) => add(bar, "button", {type: "button", "aria-label": label}, sign);
  const back = button("Previous step", "\u2039");
  const start = steps.find(each => !each.hidden).dataset.at.split(" ");
  let next, play;
  const sliders = values.map((each, i) => {
    const label = add(bar, "label");
    if (values.length > 1) add(label, "span", {}, names[i]);
    const slider = add(label, "input", {type: "range", min: 0, max: each.length - 1, step: 1,
                                        "aria-label": names[i], value: start[i]});
    if (i === 0) [next, play] = [button("Next step", "\u203a"), button("Play", "\u25b6")];
    return slider;
  });
  const words = add(bar, "output", {"aria-live": "polite"}), [first] = sliders;
  let timer = null;
  const show = () => {
    const at = sliders.map(slider => slider.value).join(" ");
    const step = steps.find(each => each.dataset.at === at);
    const titles = sliders.map((slider, i) => values[i][slider.value]);
    steps.forEach(each => each.hidden = each !== step);
    const place = values.length > 1 ? "" : `${steps.indexOf(step) + 1} of ${steps.length}: `;
    words.textContent = step ? [place + step.dataset.title, step.dataset.note].filter(Boolean)
                                 .join(" · ") : `${titles.join(", ")}: not run`;
    sliders.forEach((slider, i) => slider.setAttribute("aria-valuetext", titles[i]));
  };
  const go = to => { first.value = to; show(); };     // a slider's value stays between its ends
  const by = change => go(Number(first.value) + change);
  const turn = (sign, label) => { play.textContent = sign; play.setAttribute("aria-label", label); };
  const stop = () => { clearInterval(timer); timer = null; turn("\u25b6", "Play"); };
  back.onclick = () => { stop(); by(-1); };
  next.onclick = () => { stop(); by(1); };
  sliders.forEach(slider => slider.oninput = () => { stop(); show(); });
  play.onclick = () => {
    if (timer) { stop(); return; }
    if (first.value === first.max) go(0);
    turn("\u2759\u2759", "Pause");
    timer = setInterval(() => {
      by(1);
      if (first.value === first.max) stop();
    }, 1000 * figure.dataset.pause);
  };
  show();
}
