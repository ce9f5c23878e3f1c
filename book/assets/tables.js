/* On a phone, the rows of a table that is wider than the page stack, and each cell names its column. */
function stack() {
  for (const table of document.querySelectorAll(
    "article table:not(.cb-stacked, .cb-claims, .dataframe:has(thead th:nth-child(6))):has(> thead)")) {
    if (table.scrollWidth <= table.parentElement.clientWidth + 1) continue;
    const heads = [...table.tHead.rows[0].cells].map(
      cell => cell.querySelector("svg") ? "" :
        cell.textContent.replace(/\[.*?\]/g, "").trim());  // without citations
    for (const row of table.querySelectorAll(":scope > tbody > tr"))
      for (const cell of row.querySelectorAll(":scope > td")) {
        if (cell.cellIndex && heads[cell.cellIndex]) cell.dataset.head = heads[cell.cellIndex];
        cell.classList.toggle("cb-empty", !cell.textContent.trim() && !cell.querySelector("svg"));
      }
    table.classList.add("cb-stacked");
  }
}
/* What scrolls sideways fades at the edge where more of it follows. All boxes are measured before the
   first is changed: after each change, the browser would lay out the whole page for the next. */
const WIDE =
  ".cb-scorecard-scroll, .pst-scrollable-table-container, div.math, .highlight pre, " +
  ".text_html > div:has(> table.dataframe)";
function fade(boxes) {
  const measured = [...boxes].map(box => [box, box.scrollWidth - box.clientWidth - box.scrollLeft,
    getComputedStyle(box).overflowX === "auto"]);
  for (const [box, rest, scrolls] of measured) {
    if (rest > 1 && box.matches("div.math"))      // keys reach it
      for (const [name, value] of Object.entries({role: "group", tabindex: "0", "aria-label": "Formula"}))
        box.setAttribute(name, value);
    box.classList.toggle("cb-cut", rest > 1 && scrolls);
    box.style.setProperty("--cb-cut", `${Math.min(rest, 48)}px`);
  }
}
function fit() {
  if (matchMedia("(max-width: 600px)").matches) stack();
  fade(document.querySelectorAll(WIDE));
}
/* Not before everything has its width: half of a table would stack without its heads. */
addEventListener("load", async () => {
  await document.fonts.ready;
  fit();
  for (const type of ["resize", "toggle"]) addEventListener(type, fit, true);
  addEventListener("scroll", event => event.target.matches?.(WIDE) && fade([event.target]), true);
});
