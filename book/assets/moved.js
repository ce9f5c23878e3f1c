// Places that moved from the chapters and the errata to the audit pages: their addresses lead there.
addEventListener("DOMContentLoaded", () => {
  const place = location.hash, [folder, page] = location.pathname.split("/").slice(-2);
  const ofErrata = folder === "book" && page === "errata.html";
  const work = ofErrata ? place.slice(1).split("-")[0] : page.replace(".html", "");
  if ((ofErrata || folder === "notebooks") && /^#[\w-]+$/.test(place)
      && ["tell", "idc", "deepcluster", "weights"].includes(work) && !document.querySelector(place))
    location.replace(`${ofErrata ? "" : "../book/"}audit/${work}.html${place}`);
});
