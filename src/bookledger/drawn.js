// A page begins with one drawing of each figure. The others come as a script from beside the page: for
// a phone before the figure is in sight, the steps of a slider once somebody reaches for it.
addEventListener("DOMContentLoaded", () => {
  const phone = matchMedia("(max-width: 600px)"), begun = new Set();
  function load(figure) {
    if (begun.has(figure)) return;
    begun.add(figure);
    const script = document.createElement("script");
    script.src = figure.dataset.later;
    script.draw = drawings => {
      const places = figure.querySelectorAll(".cb-step");
      drawings.forEach((drawing, i) => {
        const made = document.createElement("template");
        made.innerHTML = drawing;
        for (const letter of made.content.querySelectorAll("path[id]"))
          if (document.getElementById(letter.id)) letter.remove();    // the page has it
        (places[i] || figure).append(made.content);
      });
      delete figure.dataset.later;
    };
    script.onerror = () => begun.delete(figure);      // it is asked for again
    document.head.append(script);
  }
  const near = new IntersectionObserver(
    seen => seen.forEach(one => one.isIntersecting && load(one.target)), {rootMargin: "1500px 0px"});
  const watch = () => phone.matches
    && document.querySelectorAll("[data-later]").forEach(figure => near.observe(figure));
  phone.addEventListener("change", watch);
  watch();
  for (const type of ["focusin", "pointerover"]) addEventListener(type, event => {
    const figure = event.target.closest?.(".cb-steps-bar")?.closest("[data-later]");
    if (figure) load(figure);
  });
});
