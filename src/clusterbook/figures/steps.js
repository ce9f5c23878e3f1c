for (const figure of document.querySelectorAll("div.cb-steps:not([data-ready])")) {
  figure.dataset.ready = "yes";
  const steps = [...figure.querySelectorAll(".cb-step")];
  const sliders = [...figure.querySelectorAll("input")], [first] = sliders;
  const [back, next, play] = figure.querySelectorAll("button");
  const words = figure.querySelector("output");
  const value = slider => JSON.parse(slider.dataset.values)[slider.value];
  let timer = null;
  const show = () => {
    const at = sliders.map(slider => slider.value).join(" ");
    const step = steps.find(each => each.dataset.at === at);
    steps.forEach(each => each.hidden = each !== step);
    words.textContent = step ? [step.dataset.title, step.dataset.note].filter(Boolean).join(" · ")
                             : `${sliders.map(value).join(", ")}: not run`;
    sliders.forEach(slider => slider.setAttribute("aria-valuetext", value(slider)));
  };
  const go = to => { first.value = to; show(); };     // a slider's value stays between its ends
  const by = change => go(Number(first.value) + change);
  const turn = (sign, label) => { play.innerHTML = sign; play.setAttribute("aria-label", label); };
  const stop = () => { clearInterval(timer); timer = null; turn("&#9654;", "Play"); };
  back.onclick = () => { stop(); by(-1); };
  next.onclick = () => { stop(); by(1); };
  sliders.forEach(slider => slider.oninput = () => { stop(); show(); });
  play.onclick = () => {
    if (timer) { stop(); return; }
    if (first.value === first.max) go(0);
    turn("&#10073;&#10073;", "Pause");
    timer = setInterval(() => {
      by(1);
      if (first.value === first.max) stop();
    }, 1000 * figure.dataset.pause);
  };
}
