// SPDX-License-Identifier: Apache-2.0

// Search in all pages of the site, without a server. The index is read when the reader first uses the box. In narrow
// windows, a button shows the list of pages.
"use strict";
(() => {
  const mostResults = 12;
  const around = 60;  // characters beside a hit
  let index = null;   // [page, anchor, title, text, section of the page] of each section
  let results = null;
  let chosen = -1;

  const element = (name, attributes, parent) => {
    const made = Object.assign(document.createElement(name), attributes);
    parent.append(made);
    return made;
  };

  const load = () => new Promise((done) => {
    if (index) return done();
    window.siteIndex = (entries) => {
      index = entries.map(([page, anchor, title, text, whole]) =>
        ({page, anchor, title, text, whole, low: text.toLowerCase(), lowTitle: `${title} ${whole}`.toLowerCase()}));
      done();
    };
    element("script", {src: "search_index.js"}, document.head);
  });

  const scoreOf = (entry, words) => {
    let score = 0;
    for (const word of words) {
      const inTitle = entry.lowTitle.indexOf(word);
      const inText = entry.low.indexOf(word);
      if (inTitle < 0 && inText < 0) return 0;
      const begins = inTitle >= 0 && (inTitle === 0 || !/\w/.test(entry.lowTitle[inTitle - 1]));
      score += (inTitle >= 0 ? 20 : 0) + (begins ? 20 : 0) + Math.min(entry.low.split(word).length - 1, 5);
    }
    if (entry.title.toLowerCase() === words.join(" ")) score += 100;
    return score;
  };

  const excerpt = (entry, words, parent) => {
    const at = Math.max(0, entry.low.indexOf(words.find((word) => entry.low.includes(word)) ?? ""));
    const begin = at > around ? entry.text.lastIndexOf(" ", at - around) + 1 : 0;
    const end = entry.text.indexOf(" ", at + 2 * around);
    const piece = entry.text.slice(begin, end < 0 ? undefined : end);
    const pattern = new RegExp(`(${words.map((word) => word.replace(/\W/g, "\\$&")).join("|")})`, "gi");
    piece.split(pattern).forEach((part, number) => {
      if (number % 2) element("mark", {textContent: part}, parent);
      else parent.append(part);
    });
  };

  const choose = (number) => {
    const all = results.querySelectorAll("a");
    chosen = all.length ? (number + all.length) % all.length : -1;
    all.forEach((link, i) => link.classList.toggle("chosen", i === chosen));
    if (chosen >= 0) all[chosen].scrollIntoView({block: "nearest"});
  };

  const show = (text) => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    results.replaceChildren();
    results.hidden = words.length === 0;
    if (results.hidden) return;
    const found = index.map((entry) => [scoreOf(entry, words), entry]).filter(([score]) => score > 0);
    found.sort(([a], [b]) => b - a);
    for (const [, entry] of found.slice(0, mostResults)) {
      const link = element("a", {href: entry.page + (entry.anchor ? `#${entry.anchor}` : "")}, results);
      element("b", {textContent: entry.title}, link);
      if (entry.whole !== entry.title) element("i", {textContent: entry.whole}, link);
      excerpt(entry, words, element("span", {}, link));
    }
    if (found.length === 0) element("p", {textContent: "No page has all of these words."}, results);
    choose(0);
  };

  document.addEventListener("DOMContentLoaded", () => {
    const place = element("div", {id: "site-search"}, document.getElementById("titlearea") ?? document.body);
    const menu = element("button", {id: "site-menu", type: "button", textContent: "Pages"}, place);
    menu.addEventListener("click", () => document.body.classList.toggle("shows-pages"));
    const box = element("input", {type: "search", placeholder: "Search  ( / )", autocomplete: "off"}, place);
    box.setAttribute("aria-label", "Search in all pages");
    results = element("div", {id: "site-results", hidden: true}, place);
    box.addEventListener("focus", load);
    box.addEventListener("input", () => load().then(() => show(box.value)));
    box.addEventListener("keydown", (event) => {
      const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
      if (step) choose(chosen + step);
      else if (event.key === "Enter") results.querySelector("a.chosen")?.click();
      else if (event.key === "Escape") box.value = "", show("");
      else return;
      event.preventDefault();
    });
    results.addEventListener("click", () => { results.hidden = true; });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || /INPUT|TEXTAREA/.test(document.activeElement.tagName)) return;
      event.preventDefault();
      box.focus();
    });
    document.addEventListener("click", (event) => { if (!place.contains(event.target)) results.hidden = true; });
    // A page can be opened with a search: index.html?search=lane
    const asked = new URLSearchParams(location.search).get("search");
    if (asked) load().then(() => { box.value = asked; show(asked); });
  });
})();
