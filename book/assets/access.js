// What Sphinx, the theme and pandas leave undone for keys and screen readers; formulas and lines.
addEventListener("DOMContentLoaded", () => {
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  const set = (selector, attributes) => each(selector, element => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  });
  // Keys reach what scrolls: wide tables, and data frames.
  set(".pst-scrollable-table-container, .text_html > div:has(> table.dataframe)",
      {role: "group", tabindex: "0", "aria-label": "Table"});
  set("[role=doc-biblioentry]", {role: "listitem"});
  // The parameters of a long signature are a list that describes nothing.
  set("dt.sig dl", {role: "presentation"});
  each("th:empty", head => {        // in the corner of a data frame
    const cell = document.createElement("td");
    cell.className = head.className;
    head.replaceWith(cell);
  });
  each("nav.bd-links details > summary", arrow => arrow.setAttribute(
    "aria-label", `Pages under ${arrow.closest("li").querySelector("a").textContent.trim()}`));
  // No line breaks between a formula and the sign that touches it, nor inside of an option.
  each("span.pre", code => code.classList.toggle("cb-keep", /^\[?-/.test(code.textContent)));
  each("span.math", math => {
    const words = (side, pattern) => math[side]?.nodeType === 3 && math[side].data.match(pattern)?.[0];
    const before = words("previousSibling", /\S{1,12}$/), after = words("nextSibling", /^\S+/);
    if (!before && !after) return;
    const kept = document.createElement("span"), next = math.nextSibling;
    kept.className = "cb-keep";
    if (before) math.previousSibling.data = math.previousSibling.data.slice(0, -before.length);
    if (after) next.data = next.data.slice(after.length);
    math.replaceWith(kept);
    kept.append(before || "", math, after || "");
  });
});
