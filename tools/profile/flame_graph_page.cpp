// SPDX-License-Identifier: Apache-2.0
#include "flame_graph_page.hpp"

namespace farcall::tool {

constinit const std::string_view flame_graph_page::style = R"(
svg { background: #ffffff; color-scheme: light dark; font: 12px monospace; }
rect { stroke: #ffffff; stroke-width: 0.3; }
text { fill: #111111; }
.title { font: bold 15px sans-serif; }
.note { font: 12px sans-serif; }
.legend { white-space: pre; }
.frame { cursor: pointer; }
.frame text { pointer-events: none; }
.frame:hover rect { stroke: #111111; stroke-width: 1; }
.caller rect { opacity: 0.5; }
.found rect { fill: #e000e0 !important; }
.found text { fill: #ffffff; }
.gone { display: none; }
@media (prefers-color-scheme: dark) {
  svg { background: #1b1b1f; }
  rect { stroke: #1b1b1f; }
  text { fill: #eeeeee; }
  .frame:hover rect { stroke: #eeeeee; }
}
)";

// A frame is an element <g class="frame" data-s="first sample" data-n="samples">. A zoom computes
// the frame's position from these numbers, and its text from its title.
constinit const std::string_view flame_graph_page::script = R"JS(
"use strict";
(function () {
  // A page may have more than this picture.
  const svg = document.currentScript.closest("svg");
  const width = Number(svg.dataset.width);
  const all = Number(svg.dataset.samples);
  const frames = Array.from(svg.querySelectorAll(".frame")).map(function (g) {
    return {
      g: g, rect: g.querySelector("rect"), text: g.querySelector("text"),
      name: g.querySelector("title").textContent.split("\n")[0],
      start: Number(g.dataset.s), count: Number(g.dataset.n), y: Number(g.dataset.y)
    };
  });
  let zoomed = null;

  function shown(name, space) {
    const letters = Math.floor((space - 6) / 7.3);
    if (letters < 3) return "";
    return name.length <= letters ? name : name.slice(0, letters - 1) + "\u2026";
  }

  function zoom(to) {
    zoomed = to;
    const start = to === null ? 0 : to.start;
    const count = to === null ? all : to.count;
    for (const f of frames) {
      const above = to !== null && f.y < to.y;
      const left = Math.max(f.start, start);
      const right = Math.min(f.start + f.count, start + count);
      const out = right <= left;
      f.g.classList.toggle("gone", out);
      f.g.classList.toggle("caller", above && !out);
      if (out) continue;
      const x = (left - start) / count * width;
      const space = (right - left) / count * width;
      f.rect.setAttribute("x", x);
      f.rect.setAttribute("width", space);
      const text = shown(f.name, space);
      if (f.text === null && text !== "") {
        f.text = document.createElementNS(svg.namespaceURI, "text");
        f.text.setAttribute("y", f.y + 13);
        f.g.appendChild(f.text);
      }
      if (f.text !== null) {
        f.text.setAttribute("x", x + 3);
        f.text.textContent = text;
      }
    }
  }

  function search(wanted) {
    const text = wanted.toLowerCase();
    let found = 0;
    let covered = 0; // the frames are in the order of their first samples, callers first
    let number = 0;
    for (const f of frames.slice(1)) { // the root is no function
      const matches = text !== "" && f.name.toLowerCase().includes(text);
      f.g.classList.toggle("found", matches);
      if (!matches) continue;
      ++number;
      if (f.start >= covered) {
        found += f.count;
        covered = f.start + f.count;
      }
    }
    const share = all === 0 ? 0 : 100 * found / all;
    svg.querySelector("#matched").textContent = text === "" ? "" :
      "found in " + share.toFixed(1) + " % of the samples, frames: " + number;
  }

  const box = document.createElementNS("http://www.w3.org/1999/xhtml", "input");
  box.setAttribute("type", "search");
  box.setAttribute("placeholder", "Search (Ctrl-F)");
  box.setAttribute("style", "width: 180px; font: 12px sans-serif;");
  const place = document.createElementNS(svg.namespaceURI, "foreignObject");
  place.setAttribute("x", width - 200);
  place.setAttribute("y", 6);
  place.setAttribute("width", 200);
  place.setAttribute("height", 26);
  place.appendChild(box);
  svg.appendChild(place);

  box.addEventListener("input", function () { search(box.value); });
  svg.addEventListener("click", function (event) {
    const g = event.target.closest(".frame");
    if (g === null) return;
    const clicked = frames.find(function (f) { return f.g === g; });
    zoom(clicked === zoomed ? null : clicked);
  });
  window.addEventListener("keydown", function (event) {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key === "Escape") {
      box.value = "";
      search("");
      zoom(null);
    }
  });
  function follow() {
    const asked = new URLSearchParams(window.location.hash.slice(1));
    const number = asked.get("zoom");
    zoom(number === null ? null : frames[Number(number)] || null);
    box.value = asked.get("search") || "";
    search(box.value);
  }
  window.addEventListener("hashchange", follow);
  follow();
})();
)JS";

} // namespace farcall::tool
