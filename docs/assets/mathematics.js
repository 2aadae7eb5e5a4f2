// Mathematics of pages and of notebooks, set by the KaTeX that lies beside this file; other pages load nothing.
const home = document.currentScript.src.replace(/[^/]*$/, "katex/");

function added(element, attributes) {
  return new Promise((done, failed) => {
    const made = Object.assign(document.createElement(element), attributes, { onload: done, onerror: failed });
    document.head.append(made);
  });
}

document.addEventListener("DOMContentLoaded", async () => {
  const cells = [...document.querySelectorAll(".jp-RenderedMarkdown, .jp-RenderedLatex")];
  const places = [...document.querySelectorAll(".arithmatex"), ...cells.filter((cell) => cell.textContent.includes("$"))];
  if (!places.length) return;
  await Promise.all([
    added("link", { rel: "stylesheet", href: home + "katex.min.css" }),
    added("script", { src: home + "katex.min.js" }),
  ]);
  await added("script", { src: home + "contrib/auto-render.min.js" });
  const pair = (left, right, display) => ({ left, right, display });
  const delimiters = [pair("\\[", "\\]", true), pair("\\(", "\\)", false), pair("$$", "$$", true), pair("$", "$", false)];
  for (const place of places) renderMathInElement(place, { delimiters });
});
