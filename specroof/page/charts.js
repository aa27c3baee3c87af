// Charts as SVG: lines with bands and marks, bars, and cells, on linear, logarithmic or named axes.
// Text goes in as text; colors other than of series are in the style sheet.
"use strict";

globalThis.specroofCharts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MARGIN = { right: 14, top: 14, bottom: 46 };
  const MARK = {
    circle: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
    square: "M-4.5 -4.5h9v9h-9z",
    triangle: "M0 -5.5L5.5 4.5H-5.5z",
    diamond: "M0 -6L6 0L0 6L-6 0z",
  };

  function add(parent, tag, attributes = {}, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // A step this much finer than asked for is nearer to it than the next.
  const FINER = 1.6;

  /** Steps of 1, 2 or 5 times a power of ten, about as many as asked for. */
  function evenTicks([least, most], count) {
    const rough = (most - least) / count,
      power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((one) => one * power * FINER >= rough) * power;
    const first = Math.ceil(least / step - 1e-9);
    return Array.from({ length: Math.floor(most / step + 1e-9) - first + 1 }, (_, n) =>
      Number(((first + n) * step).toPrecision(12)),
    );
  }

  /** 1, 2 and 5 of each power of ten; powers alone where those are too many, even steps where none is between. */
  function logTicks([least, most], count) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); power++) {
      for (const one of [1, 2, 5]) ticks.push(Number((one * 10 ** power).toPrecision(3)));
    }
    const shown = ticks.filter((tick) => tick >= least && tick <= most);
    const powers = shown.filter((tick) => String(tick).replace(/[.0]/g, "") === "1");
    if (!shown.length) return evenTicks([least, most], 2);
    return shown.length > count && powers.length > 1 ? powers : shown;
  }

  const compact = (value) =>
    value.toLocaleString(
      "en",
      value < 1000 ? { maximumSignificantDigits: 3 } : { notation: "compact", maximumSignificantDigits: 3 },
    );

  /** From values of an axis to pixels from `start` on, and its ticks: pairs of a value and a text. */
  function scale({ type = "linear", names, range, ticks }, values, start, end, count) {
    if (names) {
      const wide = (end - start) / names.length;
      return {
        to: (name) => start + (names.indexOf(name) + 0.5) * wide,
        wide: Math.abs(wide),
        ticks: names.map((name) => [name, name]),
      };
    }
    const ends = range ?? [Math.min(...values), Math.max(...values)],
      log = type === "log";
    const pad = log ? 1.12 : 0.05 * (ends[1] - ends[0] || 1);
    const [least, most] = range ?? (log ? [ends[0] / pad, ends[1] * pad] : [ends[0] - pad, ends[1] + pad]);
    const at = log ? Math.log : Number;
    const steps = ticks ?? (log ? logTicks : evenTicks)([least, most], count);
    return {
      to: (value) => start + ((end - start) * (at(value) - at(least))) / (at(most) - at(least)),
      ticks: steps.map((tick) => [tick, compact(tick)]),
    };
  }

  /** Draw a chart into an element, in the place of what is there.
   *
   * `x`, `y`: {title, type, range, ticks} or {title, names}. `lines`: {x, y, tips, color, dash, mark,
   * low, high}, without a line where `color` marks points alone (`bare`). `bars`, of names along y: {name,
   * from, to, color, text, tip}. `cells`: {x, y, share, text, tip}. `dots`: {x, y, tip, hollow}. `across`: {x}
   * or {y} of dotted lines. */
  function draw(box, { x, y, lines = [], bars = [], cells = [], dots = [], across = [] }) {
    const width = Math.max(box.clientWidth, 240),
      height = box.clientHeight,
      bottom = height - MARGIN.bottom;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("aria-hidden", "true");
    const xs = [...lines.flatMap((line) => line.x), ...bars.flatMap((bar) => [bar.from, bar.to])];
    const ys = [
      ...lines.flatMap((line) => [...line.y, ...(line.low ?? []), ...(line.high ?? [])]),
      ...dots.map((dot) => dot.y),
      ...across.flatMap((one) => one.y ?? []),
    ];
    const yScale = scale(y, ys, bottom, MARGIN.top, 6),
      left = (y.title ? 32 : 14) + 7 * Math.max(...yScale.ticks.map(([, text]) => text.length));
    const xScale = scale(x, xs, left, width - MARGIN.right, width / 70);
    // Labels that would touch are left out.
    let last = -Infinity;
    for (const [value, text] of xScale.ticks) {
      const at = xScale.to(value),
        half = text.length * 3.6;
      if (!x.names) add(svg, "line", { class: "grid", x1: at, x2: at, y1: MARGIN.top, y2: bottom });
      if (at - half > last + 3) {
        add(svg, "text", { x: at, y: bottom + 17, "text-anchor": "middle" }, text);
        last = at + half;
      }
    }
    for (const [value, text] of yScale.ticks) {
      const at = yScale.to(value);
      if (!y.names) add(svg, "line", { class: "grid", x1: left, x2: width - MARGIN.right, y1: at, y2: at });
      add(svg, "text", { x: left - 7, y: at + 4, "text-anchor": "end" }, text);
    }
    add(svg, "text", { x: (left + width - MARGIN.right) / 2, y: height - 8, "text-anchor": "middle" }, x.title ?? "");
    add(
      svg,
      "text",
      { transform: `translate(13 ${(MARGIN.top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" },
      y.title ?? "",
    );
    const points = [];
    for (const one of across) {
      const at =
        one.x === undefined
          ? { x1: left, x2: width - MARGIN.right, y1: yScale.to(one.y), y2: yScale.to(one.y) }
          : { x1: xScale.to(one.x), x2: xScale.to(one.x), y1: MARGIN.top, y2: bottom };
      add(svg, "line", { class: "across", ...at });
    }
    for (const cell of cells) {
      const [at, high] = [xScale.to(cell.x), yScale.to(cell.y)];
      add(svg, "rect", {
        class: "cell",
        x: at - xScale.wide / 2 + 1,
        y: high - yScale.wide / 2 + 1,
        width: xScale.wide - 2,
        height: yScale.wide - 2,
        "fill-opacity": 0.06 + 0.5 * cell.share,
      });
      add(svg, "text", { class: "inside", x: at, y: high + 4, "text-anchor": "middle" }, cell.text);
      points.push([at, high, cell.tip]);
    }
    for (const bar of bars) {
      const at = yScale.to(bar.name),
        low = xScale.to(Math.min(bar.from, bar.to)),
        high = xScale.to(Math.max(bar.from, bar.to)),
        half = yScale.wide * 0.36;
      add(svg, "rect", { x: low, y: at - half, width: Math.max(high - low, 1), height: 2 * half, fill: bar.color });
      add(svg, "text", { class: "inside", x: high + 5, y: at + 4 }, bar.text);
      points.push([high, at, bar.tip]);
    }
    for (const line of lines) {
      const places = line.x.map((value, n) => [xScale.to(value), yScale.to(line.y[n])]);
      const path = (pairs) => pairs.map((pair) => pair.map((one) => one.toFixed(1)).join(" ")).join("L");
      if (line.low) {
        const side = (ends) => line.x.map((value, n) => [xScale.to(value), yScale.to(ends[n])]);
        add(svg, "path", {
          d: `M${path([...side(line.low), ...side(line.high).reverse()])}z`,
          fill: line.color,
          "fill-opacity": 0.2,
        });
      }
      if (!line.bare)
        add(svg, "path", {
          class: "line",
          d: `M${path(places)}`,
          stroke: line.color,
          ...(line.dash ? { "stroke-dasharray": line.dash } : {}),
        });
      if (line.mark)
        for (const [at, high] of places)
          add(svg, "path", {
            d: MARK[line.mark],
            transform: `translate(${at.toFixed(1)} ${high.toFixed(1)})`,
            fill: line.color,
          });
      places.forEach((place, n) => {
        if (line.tips) points.push([...place, line.tips[n]]);
      });
    }
    for (const dot of dots) {
      const [at, high] = [xScale.to(dot.x), yScale.to(dot.y)];
      add(svg, "circle", { class: dot.hollow ? "dots hollow" : "dots", cx: at, cy: high, r: 3.5 });
      points.push([at, high, dot.tip]);
    }
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    svg.addEventListener("pointermove", (event) => {
      const frame = svg.getBoundingClientRect(),
        [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
      const [distance, near] = points.reduce(
        (best, one) => {
          const away = Math.hypot(one[0] - px, one[1] - py);
          return away < best[0] ? [away, one] : best;
        },
        [Infinity, null],
      );
      tip.hidden = distance > 60;
      if (tip.hidden) return;
      tip.textContent = near[2];
      tip.style.left = `${Math.min(Math.max(near[0] - tip.offsetWidth / 2, 0), width - tip.offsetWidth)}px`;
      tip.style.top = `${near[1] > 60 ? near[1] - tip.offsetHeight - 10 : near[1] + 14}px`;
    });
    svg.addEventListener("pointerleave", () => {
      tip.hidden = true;
    });
    box.replaceChildren(svg, tip);
  }

  return { draw };
})();
