// What test_book asks a page that is open in Chromium.

// The rings of what keys reach: what is drawn, in which color, on which ground. A key was the last
// thing used, so that the browser draws them.
window.rings = () => [...document.querySelectorAll("a[href], button, input, summary, [tabindex]")]
  .filter(element => element.tabIndex >= 0 && element.checkVisibility()).map(element => {
    element.focus({preventScroll: true});
    if (document.activeElement !== element) return null;
    const card = element.matches(".sd-stretched-link");  // the link is the whole card
    const style = getComputedStyle(element, card ? "::after" : null);
    let ground = element.parentElement, color = "rgba(0, 0, 0, 0)";
    while (ground && color === "rgba(0, 0, 0, 0)") {
      color = getComputedStyle(ground).backgroundColor; ground = ground.parentElement;
    }
    const outline = `${style.outlineColor} ${style.outlineStyle} ${style.outlineWidth}`;
    const drawn = /^(rgb.*?\)) (?:solid|0px 0px 0px) (\d+)px/;       // an outline or a shadow
    const ring = outline.match(drawn) || style.boxShadow.match(drawn) || [];
    return {html: element.outerHTML.slice(0, 150), color: ring[1], width: ring[2] || 0,
            ground: color === "rgba(0, 0, 0, 0)" ? "rgb(255, 255, 255)" : color};
  }).filter(ring => ring);

// Whether keys scroll what is wide. The theme lets them reach a box only while it scrolls, and looks
// a moment after a resize.
window.reachable = () => [...document.querySelectorAll("article :is(table, pre)")].every(wide => {
  const box = wide.closest("[role=region], [role=group]") || wide;
  const fits = wide.getBoundingClientRect().right <= innerWidth
    && (wide.scrollWidth <= wide.clientWidth || !wide.matches("pre"));
  return fits || box.tabIndex === 0 && (wide.matches("pre") ||
    box.getAttribute("aria-label")?.trim() && getComputedStyle(box).overflowX === "auto");
});

// The drawings in sight with a letter beyond their edge. A letter is a reference to its outline.
window.cut = () => [...document.querySelectorAll("figure svg")].filter(drawn => {
  const whole = drawn.getBoundingClientRect();
  return drawn.checkVisibility() && [...drawn.querySelectorAll("use")].some(letter => {
    const box = letter.getBoundingClientRect();
    return letter.href.baseVal.includes("DejaVu") && box.width && (
      box.left < whole.left - 1 || box.right > whole.right + 1
      || box.top < whole.top - 1 || box.bottom > whole.bottom + 1);
  });
}).map(drawn => drawn.closest("figure").id);

// What stands in a figure with sliders: its words, the first slider's, and the pictures in sight.
window.stands = figure => {
  const inSight = element => element.checkVisibility({visibilityProperty: true});
  const first = [...figure.querySelectorAll("input[type=range]")].find(inSight);
  return {said: figure.querySelector("output").innerText, title: first.ariaValueText,
    pictures: [...figure.querySelectorAll(".cb-step:not([hidden]) > *")].filter(inSight).map(
      one => [one.getBoundingClientRect().height,
              one.getAttribute("alt") || one.getAttribute("aria-label")])};
};

// What axe-core finds. What has no bearing on a check is put away meanwhile: axe would need minutes
// on pages with thousands of alike elements. The structure is compared without the spans that color
// code, colors once for each combination of a text's color, size and weight and of the grounds below
// it.
window.violations = async everything => {
  const options = {elementRef: false, resultTypes: ["violations"], preload: false};
  const colors = ["color-contrast", "link-in-text-block"], found = [], away = [];
  const empty = (element, ...instead) => {
    away.push([element, element.style.cssText, [...element.childNodes]]);
    element.replaceChildren(...instead);
  };
  const restore = () => {
    for (const [element, style, children] of away.splice(0)) {
      element.style.cssText = style;
      element.replaceChildren(...children);
    }
  };
  // First: the theme takes what is not displayed for something that nobody has to scroll.
  if (everything) {
    for (const element of document.querySelectorAll("pre, dt.sig :is(em, span)"))
      if (element.children.length && !element.querySelector("a, button, [role], [tabindex]"))
        empty(element, element.textContent);
    const off = Object.fromEntries(colors.map(rule => [rule, {enabled: false}]));
    found.push(...(await axe.run(document, {...options, rules: off})).violations);
    restore();
  }
  const grounds = new Map([[null, ""]]);
  const below = element => {
    if (!grounds.has(element)) {
      const style = getComputedStyle(element);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity].join();
      const above = below(element.parentElement);
      grounds.set(element, own === "rgba(0, 0, 0, 0),none,1" ? above : own + "/" + above);
    }
    return grounds.get(element);
  };
  const kinds = {}, chosen = [], kept = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const holds = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!(holds || element.matches("input, select, textarea")) || !element.checkVisibility())
      continue;
    const style = getComputedStyle(element);
    const kind = [element.tagName, style.color, style.fontSize, style.fontWeight, below(element)]
      .join();
    kinds[kind] = (kinds[kind] || 0) + 1;
    if (kinds[kind] <= 2) chosen.push(element);
  }
  for (const element of chosen) {
    for (let above = element; above; above = above.parentElement) kept.add(above);
    element.querySelectorAll("*").forEach(inside => kept.add(inside));
  }
  const hide = element => {
    if (kept.has(element)) [...element.children].forEach(hide);
    else if (element.style) {
      empty(element);
      element.style.setProperty("display", "none", "important");
    }
  };
  hide(document.body);
  found.push(...(await axe.run({include: chosen}, {...options, runOnly: colors})).violations);
  restore();
  return found.flatMap(rule => rule.nodes.map(
    node => [rule.id, node.target.flat().join(" "), node.html, node.failureSummary]));
};
