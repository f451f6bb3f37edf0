"use strict";
// Niceties only: every page works without.

(function () {
  // one stop of the Tab key for all windows; arrow keys move between them
  document.querySelectorAll("[data-tg-map]").forEach(function (map) {
    var rows = Array.prototype.map.call(map.tBodies[0].rows, function (row) {
      return Array.prototype.map.call(row.cells, function (cell) { return cell.querySelector("a"); }).slice(1);
    });
    var told = document.querySelector("[data-tg-told]");
    var all = Array.prototype.slice.call(map.querySelectorAll("a"));
    if (!all.length) { return; }
    var stop = function (link) {
      all.forEach(function (one) { one.tabIndex = -1; });
      link.tabIndex = 0;
    };
    stop(all[all.length - 1]);
    var next = function (r, c, dr, dc) {
      for (r += dr, c += dc; rows[r] && c >= 0 && c < rows[r].length; r += dr, c += dc) {
        if (rows[r][c]) { return rows[r][c]; }
      }
      return null;
    };
    map.addEventListener("keydown", function (event) {
      var moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      var r = rows.findIndex(function (row) { return row.indexOf(event.target) >= 0; });
      if (r < 0) { return; }
      var to = null;
      if (moves[event.key]) { to = next(r, rows[r].indexOf(event.target), moves[event.key][0], moves[event.key][1]); }
      if (event.key === "Home") { to = rows[r].find(Boolean); }
      if (event.key === "End") { to = rows[r].slice().reverse().find(Boolean); }
      if (to) { event.preventDefault(); stop(to); to.focus(); }
    });
    var tell = function (event) {
      var link = event.target.closest ? event.target.closest("a") : null;
      if (link && told) { told.textContent = link.getAttribute("aria-label"); }
    };
    map.addEventListener("focusin", tell);
    map.addEventListener("mouseover", tell);
  });

  // a choice is taken at once
  document.querySelectorAll("[data-tg-submits]").forEach(function (select) {
    select.addEventListener("change", function () { select.form.submit(); });
    var button = select.form.querySelector("button[type=submit]");
    if (button) { button.hidden = true; }
  });

  // what takes longer than a page may is fetched behind it
  document.querySelectorAll("[data-tg-fetch]").forEach(function (place) {
    place.setAttribute("aria-busy", "true");
    fetch(place.getAttribute("data-tg-fetch"), { credentials: "same-origin" }).then(function (answer) {
      return answer.ok && !answer.redirected ? answer.text() : Promise.reject(answer.status);
    }).then(function (text) {
      var found = new DOMParser().parseFromString(text, "text/html").getElementById(place.id);
      if (found) { place.replaceChildren.apply(place, Array.prototype.slice.call(found.childNodes)); }
    }).catch(function () { /* what is there already stays */ }).then(function () {
      place.removeAttribute("aria-busy");
    });
  });
})();
