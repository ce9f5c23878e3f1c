/* On a phone, the rows of a table that is wider than the page stack, and each cell names its column. */
function stack() {
  if (!matchMedia("(max-width: 600px)").matches) return;
  for (const table of document.querySelectorAll("article table:not(.cb-stacked, .dataframe):has(> thead)")) {
    if (table.scrollWidth <= table.parentElement.clientWidth + 1) continue;
    const heads = [...table.tHead.rows[0].cells].map(
      cell => cell.textContent.replace(/\[.*?\]/g, "").trim());  // without citations
    for (const row of table.querySelectorAll(":scope > tbody > tr"))
      for (const cell of row.querySelectorAll(":scope > td")) {
        if (cell.cellIndex && heads[cell.cellIndex]) cell.dataset.head = heads[cell.cellIndex];
        cell.hidden = ["", "–"].includes(cell.textContent.trim());
      }
    table.classList.add("cb-stacked");
  }
}
addEventListener("load", stack);
addEventListener("toggle", stack, true);
