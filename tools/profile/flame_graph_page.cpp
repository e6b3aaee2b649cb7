// SPDX-License-Identifier: Apache-2.0
#include "flame_graph_page.hpp"

#include <array>

namespace farcall::tool {

namespace {

using entry = std::pair<std::string_view, std::string_view>;
constexpr std::array legend_entries = {entry("p", "program"), entry("l", "libraries"),
                                       entry("f", "farcall"), entry("w", "waiting or idle")};

} // namespace

constinit const std::span<const entry> flame_graph_page::legend = legend_entries;

// Rules of a picture in a page must not apply to the rest of the page.
constinit const std::string_view flame_graph_page::style = R"(
.flames { background: #ffffff; color-scheme: light dark; font: 12px monospace; }
.flames rect { stroke: #ffffff; stroke-width: 0.6; }
.flames text { fill: #1b1f24; }
.flames .title { font: 600 16px system-ui, 'DejaVu Sans', sans-serif; }
.flames .note { font: 12.5px system-ui, 'DejaVu Sans', sans-serif; fill: #5b6470; }
.p rect, .flames .key.p { fill: #f5b27a; }
.l rect, .flames .key.l { fill: #a9cbe8; }
.f rect, .flames .key.f { fill: #9fd8c2; }
.w rect, .flames .key.w { fill: #dcdfe4; }
.n rect { fill: #eceef1; }
.key { font-size: 15px; }
.frame { cursor: pointer; }
.frame text { pointer-events: none; }
.flames .frame:hover rect { stroke: #1b1f24; stroke-width: 1; }
.caller rect { opacity: 0.45; }
.flames .found rect { fill: #a8447f; }
.flames .found text { fill: #ffffff; }
.gone { display: none; }
.controls, .controls input { font: 13px system-ui, 'DejaVu Sans', sans-serif; color: #1b1f24; }
.controls { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: center; }
.controls label { white-space: nowrap; cursor: pointer; }
.controls .found { margin-left: auto; }
@media (prefers-color-scheme: dark) {
  .flames { background: #12161b; }
  .flames rect { stroke: #12161b; }
  .flames text { fill: #e8ebef; }
  .flames .note { fill: #a4adb8; }
  .p rect, .flames .key.p { fill: #8a4a15; }
  .l rect, .flames .key.l { fill: #27506f; }
  .f rect, .flames .key.f { fill: #1d5a46; }
  .w rect, .flames .key.w { fill: #363d46; }
  .n rect { fill: #252b33; }
  .flames .frame:hover rect { stroke: #e8ebef; }
  .flames .found rect { fill: #c05a97; }
  .controls, .controls input { color: #e8ebef; }
}
)";

// A frame is an element <g class="frame" data-s="first sample" data-n="samples">. The script
// computes the frame's position from these numbers, and its text from its title. The first graph
// has one frame for successive functions of farcall, the second graph has all frames.
constinit const std::string_view flame_graph_page::script = R"JS(
"use strict";
(function () {
  // A page may have more than this picture.
  const svg = document.currentScript.closest("svg");
  const html = "http://www.w3.org/1999/xhtml";
  const all = Number(svg.dataset.samples);
  const computing = Number(svg.dataset.computing);
  const graphs = Array.from(svg.querySelectorAll(".graph")).map(function (g) {
    return {
      g: g, height: g.dataset.height,
      frames: Array.from(g.querySelectorAll(".frame")).map(function (f) {
        return {
          g: f, rect: f.querySelector("rect"), text: f.querySelector("text"),
          name: f.querySelector("title").textContent.split("\n")[0],
          start: Number(f.dataset.s), count: Number(f.dataset.n), y: Number(f.dataset.y)
        };
      })
    };
  });
  let graph = graphs[0];
  let zoomed = null;

  // As wide as the window, in place of scaled to it.
  svg.removeAttribute("viewBox");
  svg.style.width = "100%";

  function element(name, parent, properties) {
    const made = document.createElementNS(html, name);
    parent.appendChild(made);
    return Object.assign(made, properties);
  }

  // The controls are in the page, or else in the picture.
  let place = svg.previousElementSibling;
  if (place === null || !place.classList.contains("controls")) {
    const outer = document.createElementNS(svg.namespaceURI, "foreignObject");
    for (const [name, value] of [["x", 8], ["y", 70], ["width", "100%"], ["height", 30]])
      outer.setAttribute(name, value);
    svg.appendChild(outer);
    place = element("div", outer, {className: "controls"});
    place.style.marginRight = "16px";
  }
  const box = element("input", place, {type: "search", placeholder: "Search (Ctrl-F)"});
  box.style.width = "150px";
  function add_switch(text, action) {
    const label = element("label", place, {});
    const made = element("input", label, {type: "checkbox"});
    label.appendChild(document.createTextNode(" " + text));
    made.addEventListener("change", action);
    return made;
  }
  const unfolded = graphs.length > 1 ? add_switch("functions of farcall", choose) : null;
  const has_parts = computing > 0 && computing < all;
  const waiting = has_parts ? add_switch("waiting and idle threads", choose) : null;
  const matched = element("span", place, {className: "found"});

  function shown(name, space) {
    const letters = Math.floor((space - 6) / 7.3);
    if (letters < 3) return "";
    return name.length <= letters ? name : name.slice(0, letters - 1) + "\u2026";
  }

  // Samples of waiting threads are the last ones.
  function whole() { return waiting !== null && !waiting.checked ? computing : all; }

  function layout() {
    if (graph === undefined) return;
    const start = zoomed === null ? 0 : zoomed.start;
    const count = zoomed === null ? whole() : zoomed.count;
    const pixels = svg.getBoundingClientRect().width;
    for (const f of graph.frames) {
      const above = zoomed !== null && f.y < zoomed.y;
      const left = Math.max(f.start, start);
      const right = Math.min(f.start + f.count, start + count);
      const out = right <= left;
      f.g.classList.toggle("gone", out);
      f.g.classList.toggle("caller", above && !out);
      if (out) continue;
      const x = (left - start) / count;
      const share = (right - left) / count;
      f.rect.setAttribute("x", 100 * x + "%");
      f.rect.setAttribute("width", 100 * share + "%");
      const text = shown(f.name, share * pixels);
      if (f.text === null && text !== "") {
        f.text = document.createElementNS(svg.namespaceURI, "text");
        f.text.setAttribute("y", f.y + 13);
        f.text.setAttribute("dx", 4);
        f.g.appendChild(f.text);
      }
      if (f.text !== null) {
        f.text.setAttribute("x", 100 * x + "%");
        f.text.textContent = text;
      }
    }
  }

  function zoom(to) {
    zoomed = to;
    layout();
  }

  function search() {
    if (graph === undefined) return;
    const text = box.value.toLowerCase();
    let found = 0;
    let covered = 0; // the frames are in the order of their first samples, callers first
    let number = 0;
    for (const f of graph.frames.slice(1)) { // the root is no function
      const matches = text !== "" && f.start < whole() && f.name.toLowerCase().includes(text);
      f.g.classList.toggle("found", matches);
      if (!matches) continue;
      ++number;
      if (f.start >= covered) {
        found += f.count;
        covered = f.start + f.count;
      }
    }
    matched.textContent = text === "" ? "" :
      "found in " + (100 * found / (whole() || 1)).toFixed(1) + " % of the samples, frames: " + number;
  }

  function choose() {
    graph = graphs[unfolded !== null && unfolded.checked ? 1 : 0];
    for (const one of graphs) one.g.classList.toggle("gone", one !== graph);
    if (graph !== undefined) svg.setAttribute("height", graph.height);
    zoom(null);
    search();
  }

  box.addEventListener("input", search);
  svg.addEventListener("click", function (event) {
    const g = event.target.closest(".frame");
    if (g === null) return;
    const clicked = graph.frames.find(function (f) { return f.g === g; });
    zoom(clicked === zoomed ? null : clicked);
  });
  window.addEventListener("keydown", function (event) {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key === "Escape") {
      box.value = "";
      search();
      zoom(null);
    }
  });
  function follow() {
    const asked = new URLSearchParams(window.location.hash.slice(1));
    if (unfolded !== null) unfolded.checked = asked.has("farcall");
    if (waiting !== null) waiting.checked = asked.has("waiting");
    box.value = asked.get("search") || "";
    choose();
    const number = asked.get("zoom");
    if (number !== null && graph !== undefined) zoom(graph.frames[Number(number)] || null);
  }
  window.addEventListener("hashchange", follow);
  window.addEventListener("resize", layout);
  follow();
})();
)JS";

} // namespace farcall::tool
