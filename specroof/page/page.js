// The page: state in the address, controls, charts. Text goes in as text, never as HTML.
"use strict";

globalThis.specroofPage = (() => {
  const $ = (id) => document.getElementById(id);
  const tables = JSON.parse($("tables").textContent);
  const COLORS = ["#3d8fd9", "#d9822b", "#2ba57a", "#b566c9"];
  // A shape for each drafter besides its color, in charts and beside its controls.
  const MARKS = ["circle", "square", "triangle-up", "diamond"];
  const SHAPES = ["circle(50%)", "none", "polygon(50% 0, 100% 100%, 0 100%)", "polygon(50% 0, 100% 50%, 50% 100%, 0 50%)"];
  const KINDS = { ideal: "ideal (free lunch)", autoregressive: "autoregressive, by cost", block: "block, by cost",
    mtp: "mtp", eagle3: "eagle3", dflash: "dflash", ngram: "ngram" };
  const LAWS = { accept: "constant rate", "accept-length": "acceptance length", profile: "published profile" };
  const PRICED = Object.keys(tables.flags);
  const MOST_ADDRESS = 4000, MOST_DRAFTERS = 4;
  const waiting = new Map(), sections = new Map();
  let state, cells = [], cell = null, figures = null;

  // --- state: checked on the way in, never evaluated ---------------------------------------------

  const DEFAULT = () => ({
    model: tables.models[0], chip: tables.hardware[0][0], devices: 0, engine: "", limited: true,
    context: nearest(tables.context_len, 4096), batch: nearest(tables.batch_size, 8),
    drafters: [], focus: 0, length: null,
  });

  /** Drafters to compare by default: heads that the library prices, else shares of a step. */
  const usualDrafters = () => (offered("eagle3")
    ? ["eagle3,accept=0.75", "dflash,accept=0.8", "ideal"]
    : ["block,accept=0.89,cost=0.1,drafts=16", "autoregressive,accept=0.75,cost=0.1", "ideal"]).map(parsedSpec);

  function nearest(values, wanted) {
    return values.reduce((best, one) => Math.abs(one - wanted) < Math.abs(best - wanted) ? one : best);
  }

  /** A number of the address within bounds and on a step of its slider; otherwise a refusal. */
  function numberIn(name, text, least, most, step) {
    const value = /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
    const steps = Math.round((value - least) / step);
    const snapped = Number((least + steps * step).toFixed(6));
    if (!(value >= least && value <= most) || Math.abs(snapped - value) > 1e-9) {
      throw new Error(`${name} is ${shown(text)}; allowed: ${least} to ${most} in steps of ${step}`);
    }
    return snapped;
  }

  function oneOf(name, text, allowed) {
    const found = allowed.find((one) => String(one) === text);
    if (found === undefined) {
      throw new Error(`${name} is ${shown(text)}; allowed: ${allowed.slice(0, 12).join(", ")}${allowed.length > 12 ? ", …" : ""}`);
    }
    return found;
  }

  const shown = (text) => `“${text.length > 60 ? `${text.slice(0, 60)}…` : text}”`;

  /** A drafter as a command spells it. */
  function spec(drafter) {
    const law = {
      accept: () => `,accept=${drafter.accept}`,
      "accept-length": () => `,accept-length=${drafter.length}@${drafter.depth}`,
      profile: () => `,profile=${drafter.profile}`,
    }[drafter.law] || (() => "");
    const cost = drafter.cost === undefined ? "" : `,cost=${drafter.cost}`;
    return `${drafter.kind}${law()}${cost}${drafter.kind === "block" ? `,drafts=${drafter.drafts}` : ""}`;
  }

  function parsedSpec(text) {
    const [kind, ...pairs] = text.split(",");
    const values = new Map(pairs.map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1)];
    }));
    const name = (key) => `${key} of drafter ${shown(text)}`;
    const drafter = { kind: oneOf("drafter", kind, Object.keys(KINDS)) };
    const taken = [];
    const take = (key) => { taken.push(key); return values.get(key) ?? ""; };
    if (kind !== "ideal") {
      drafter.law = Object.keys(LAWS).find((law) => values.has(law)) || "accept";
      const given = take(drafter.law);
      if (drafter.law === "accept") drafter.accept = numberIn(name("accept"), given, 0, 1, 0.01);
      if (drafter.law === "profile") drafter.profile = oneOf(name("profile"), given, tables.profiles.map((one) => one.name));
      if (drafter.law === "accept-length") {
        const [length, depth = ""] = given.split("@");
        drafter.depth = oneOf(name("accept-length"), depth, tables.length_depths);
        drafter.length = numberIn(name("accept-length"), length, 1, drafter.depth + 1, 1 / tables.length_steps);
      }
    }
    if (kind === "autoregressive" || kind === "block") drafter.cost = numberIn(name("cost"), take("cost"), 0, 1, 0.005);
    if (kind === "block") drafter.drafts = numberIn(name("drafts"), take("drafts"), 1, tables.max_draft_len, 1);
    if (values.size !== taken.length || [...values.keys()].some((key) => !taken.includes(key))) {
      throw new Error(`drafter is ${shown(text)}; allowed: ${spec(drafter)}`);
    }
    return drafter;
  }

  const READ = {
    model: (text) => ({ model: oneOf("model", text, tables.models) }),
    chip: (text) => ({ chip: oneOf("chip", text, tables.hardware.map((one) => one[0])) }),
    devices: (text) => ({ devices: oneOf("devices", text, tables.devices) }),
    engine: (text) => ({ engine: text }),
    context: (text) => ({ context: oneOf("context", text, tables.context_len) }),
    batch: (text) => ({ batch: oneOf("batch", text, tables.batch_size) }),
    limited: (text) => ({ limited: oneOf("limited", text, ["1", "0"]) === "1" }),
    focus: (text) => ({ focus: numberIn("focus", text, 0, MOST_DRAFTERS - 1, 1) }),
    length: (text) => ({ length: text === "best" ? null : numberIn("length", text, 0, tables.max_draft_len, 1) }),
  };

  /** The state that an address says, and what it says wrongly. */
  function readAddress(hash) {
    const found = DEFAULT(), wrong = [];
    if (hash.length > MOST_ADDRESS) {
      return [found, [`the address has ${hash.length} characters; allowed: at most ${MOST_ADDRESS}`]];
    }
    const words = new URLSearchParams(hash.replace(/^#/, ""));
    const drafters = words.getAll("drafter");
    for (const [key, text] of words) {
      if (key === "drafter") continue;
      try {
        if (!Object.hasOwn(READ, key)) throw new Error(`the address has ${shown(key)}; allowed: ${Object.keys(READ).join(", ")}, drafter`);
        Object.assign(found, READ[key](text));
      } catch (refusal) { wrong.push(refusal.message); }
    }
    if (drafters.length > MOST_DRAFTERS) wrong.push(`the address has ${drafters.length} drafters; allowed: up to ${MOST_DRAFTERS}`);
    const read = drafters.slice(0, MOST_DRAFTERS).flatMap((text) => {
      try { return [parsedSpec(text)]; } catch (refusal) { wrong.push(refusal.message); return []; }
    });
    if (read.length) found.drafters = read;
    found.focus = Math.min(found.focus, Math.max(read.length, 1) - 1);
    return [found, wrong];
  }

  function address() {
    const words = new URLSearchParams();
    for (const key of ["model", "chip", "devices", "engine", "context", "batch", "focus"]) words.set(key, state[key]);
    words.set("limited", state.limited ? "1" : "0");
    words.set("length", state.length === null ? "best" : state.length);
    for (const drafter of state.drafters) words.append("drafter", spec(drafter));
    return `#${words}`;
  }

  // --- grids: inside of the page, or in files beside it ------------------------------------------

  function receive(name, section) {
    waiting.get(name)?.(section);
  }

  async function section(model, chip) {
    const name = `${tables.models.indexOf(model)}-${tables.hardware.findIndex((one) => one[0] === chip)}`;
    if (!sections.has(name)) sections.set(name, loaded(name));
    return sections.get(name);
  }

  async function loaded(name) {
    const packed = tables.sections ? tables.sections[name] : await new Promise((resolve, reject) => {
      waiting.set(name, resolve);
      const script = document.createElement("script");
      script.src = `grid-${name}.js`;
      script.onerror = () => reject(new Error(`grid-${name}.js cannot be read; it lies beside this page`));
      document.head.append(script);
    });
    const found = await Promise.all(packed.cells.map((one) => specroof.unpackedCell(one, tables.quantum)));
    return { default_engine: packed.default_engine, cells: found };
  }

  // --- figures ------------------------------------------------------------------------------------

  const at = () => [tables.context_len.indexOf(state.context), tables.batch_size.indexOf(state.batch)];
  const curve = (drafter, i, j) => specroof.curve(drafter, cell, tables, i, j, state.limited);
  const offered = (kind) => !PRICED.includes(kind) || Boolean(cell?.drafting[kind]);
  const usable = () => state.drafters.map((one) => offered(one.kind));

  function computed() {
    const [i, j] = at(), able = usable();
    return {
      curves: state.drafters.map((one, d) => able[d] ? curve(one, i, j) : null),
      batches: state.drafters.map((one, d) => able[d] ? tables.batch_size.map((_, k) => curve(one, i, k)) : null),
      map: able[state.focus] ? tables.context_len.map((_, c) => tables.batch_size.map((__, k) => curve(state.drafters[state.focus], c, k))) : null,
    };
  }

  const digits = (value, places = 3) => Number.isFinite(value) ? value.toLocaleString("en", { maximumSignificantDigits: places }) : "–";
  const times = (value) => Number.isFinite(value) ? `${value.toFixed(2)}×` : "–";
  const millis = (value) => Number.isFinite(value) ? `${(value * 1e3).toFixed(value < 1e-3 ? 3 : 2)} ms` : "–";
  const drafts = (count) => `${count} draft${count === 1 ? "" : "s"}`;

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  /** How many of the requests run where not all do; how long the others wait is the library's to say. */
  function running(found) {
    const [plain, drafted] = found.most.map((one) => one ?? Infinity);
    if (plain < 1) return `at context ${state.context} not one request fits.`;
    return `at context ${state.context} ${Math.min(plain, state.batch)} of ${state.batch} requests run without drafts, ${Math.min(drafted, state.batch)} with one; the others wait. specroof predict with --concurrency ${state.batch} in the place of --batch says how long.`;
  }

  /** Whether the server has room for any draft: without room a best length of 0 says nothing. */
  const hasRoom = (found) => found.speedup.slice(1).some(Number.isFinite);

  function verdict(drafter, found, batches) {
    const line = element("p");
    const name = spec(drafter);
    if (!found) {
      line.append(element("strong", "no figures"), ` for ${name}: this page has none of ${drafter.kind} with engine ${state.engine} here.`);
      return line;
    }
    const paid = tables.batch_size.filter((_, k) => batches[k].best_draft_len > 0);
    const drafting = hasRoom(found), full = state.limited && found.most[1] < state.batch;
    if (!Number.isFinite(found.best_speedup) || (full && !drafting && found.most[1] !== null)) {
      line.append(element("strong", "no room"), ` for ${name}: ${running(found)}`);
      return line;
    }
    const pays = found.best_draft_len > 0, sure = found.verdict !== "unclear";
    line.className = !sure ? "unclear" : pays ? "pays" : "loses";
    line.append(element("strong", !sure ? "unclear" : pays ? "pays" : "does not pay"), `: ${name}. `);
    line.append(pays
      ? `${drafts(found.best_draft_len)} per round decode ${times(found.best_speedup)} as fast${within(found)}: ${digits(found.tokens_per_s_per_user[0])} → ${digits(found.tokens_per_s_per_user[found.best_draft_len])} tok/s for each user. `
      : `No draft length beats plain decoding's ${digits(found.tokens_per_s_per_user[0])} tok/s for each user. `);
    line.append(paid.length === tables.batch_size.length ? "It pays at every batch shown."
      : paid.length ? `At this context it pays at batch ${paid.join(", ")}.` : "At this context it pays at no batch shown.");
    const room = found.most[found.best_draft_len];
    if (state.limited && pays && room !== null && found.most[0] !== room) line.append(` The server runs at most ${room} requests with these drafts${found.most[0] === null ? "" : `, ${found.most[0]} without`}.`);
    return line;
  }

  const within = (found) => found.speedup_low
    ? ` (80 % of measurements: ${found.speedup_low[found.best_draft_len].toFixed(2)} to ${times(found.speedup_high[found.best_draft_len])})` : "";

  function showFigures() {
    const head = element("tr");
    for (const text of ["Drafter", "Best drafts", "Within 1 %", "Speedup", "Tokens / round", "tok/s per user", "Draft", "Verify", "Round"]) {
      const cellOf = element("th", text);
      cellOf.scope = "col";
      head.append(cellOf);
    }
    const rows = state.drafters.map((drafter, d) => {
      const line = element("tr"), found = figures.curves[d];
      const name = element("th", spec(drafter));
      name.scope = "row";
      line.append(name);
      const k = found?.best_draft_len;
      const runs = found && Number.isFinite(found.best_speedup);
      const texts = runs ? [k, found.near_best.join("–"), times(found.best_speedup), digits(found.tokens_per_round[k], 4), digits(found.tokens_per_s_per_user[k], 4),
        k ? millis(found.draft_s[k]) : "–", millis(found.verify_s[k]), millis(found.round_s[k])] : Array(8).fill("–");
      for (const text of texts) line.append(element("td", text));
      return line;
    });
    const thead = element("thead"), tbody = element("tbody");
    thead.append(head);
    tbody.append(...rows);
    $("figures").replaceChildren(thead, tbody);
    $("verdict").replaceChildren(...state.drafters.map((one, d) => verdict(one, figures.curves[d], figures.batches[d])));
  }

  // --- charts -------------------------------------------------------------------------------------

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const safe = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function layout(more) {
    const axis = { gridcolor: css("--grid"), zerolinecolor: css("--grid"), linecolor: css("--line"), fixedrange: true, automargin: true };
    return { margin: { l: 48, r: 12, t: 8, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false,
      font: { color: css("--ink"), size: 13, family: "system-ui, DejaVu Sans, sans-serif" }, showlegend: false, hoverlabel: { namelength: -1 },
      ...more, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis } };
  }

  const draw = (id, traces, more, says) => {
    $(id).setAttribute("aria-label", says);
    return Plotly.react($(id), traces, layout(more), { displayModeBar: false, responsive: true });
  };

  function even(xs) {
    return { x: [xs[0], xs.at(-1)], y: [1, 1], mode: "lines", line: { color: css("--soft"), dash: "dot", width: 1 }, hoverinfo: "skip" };
  }

  function drawByLength() {
    const lengths = figures.curves.find(Boolean)?.speedup.map((_, length) => length) || [0];
    const traces = [even(lengths)];
    state.drafters.forEach((drafter, d) => {
      const found = figures.curves[d];
      if (!found) return;
      if (found.speedup_low && d === state.focus) {
        const known = lengths.filter((length) => Number.isFinite(found.speedup[length]));
        traces.push({ x: [...known, ...known.toReversed()], y: [...known.map((one) => found.speedup_low[one]), ...known.toReversed().map((one) => found.speedup_high[one])],
          mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: `${COLORS[d]}38`, hoverinfo: "skip" });
      }
      traces.push({ x: lengths, y: found.speedup, name: safe(spec(drafter)), mode: "lines", line: { color: COLORS[d], width: 2 } });
      traces.push({ x: [found.best_draft_len], y: [found.best_speedup], name: safe(spec(drafter)), mode: "markers", marker: { color: COLORS[d], size: 11, symbol: MARKS[d] }, hovertemplate: "best: %{x} drafts, %{y:.3f}×<extra></extra>" });
    });
    draw("by-length", traces, { xaxis: { title: { text: "drafts per round" }, dtick: 2 }, yaxis: { title: { text: "speedup (×)" } } },
      `Speedup by drafts per round, one line for each drafter; ${bestWords()}`);
  }

  const bestWords = () => state.drafters.map((one, d) => figures.curves[d] && Number.isFinite(figures.curves[d].best_speedup)
    ? `${spec(one)}: best ${times(figures.curves[d].best_speedup)} at ${drafts(figures.curves[d].best_draft_len)}` : `${spec(one)}: no figures`).join("; ");

  function drawByBatch() {
    const batches = tables.batch_size;
    const traces = [even(batches)];
    state.drafters.forEach((drafter, d) => {
      if (!figures.batches[d]) return;
      traces.push({ x: batches, y: figures.batches[d].map((one) => hasRoom(one) ? one.best_speedup : null), text: figures.batches[d].map((one) => drafts(one.best_draft_len)), name: safe(spec(drafter)), mode: "lines+markers",
        line: { color: COLORS[d], width: 2 }, marker: { size: 8, symbol: MARKS[d] }, hovertemplate: "batch %{x}: %{y:.3f}×, %{text}<extra></extra>" });
    });
    draw("by-batch", traces, { xaxis: { title: { text: "batch (sequences)" }, type: "log", tickvals: batches, ticktext: batches.map(String) }, yaxis: { title: { text: "best speedup (×)" } } },
      `Best speedup by batch at context ${state.context}, one line for each drafter; no point where the server has no room for drafts`);
  }

  const chosenLength = () => state.length ?? figures.curves[state.focus]?.best_draft_len ?? 0;

  function drawRound() {
    const found = figures.curves[state.focus], length = chosenLength();
    if (!found || !Number.isFinite(found.round_s[length])) {
      draw("round", [], { xaxis: { visible: false }, yaxis: { visible: false }, annotations: [{ text: "no such round here", showarrow: false }] }, "No such round here");
      return;
    }
    const tokens = found.tokens_per_round[length], plain = found.round_s[0] * 1e3;
    const parts = length ? [found.draft_s[length], found.verify_s[length], found.engine_s] : [0, found.round_s[0], 0];
    const bars = parts.map((one) => one * 1e3), total = found.round_s[length] * 1e3;
    draw("round", [
      { type: "waterfall", x: ["draft", "verify", "engine", "round"], measure: ["relative", "relative", "relative", "total"], y: [...bars, 0],
        text: [...bars, total].map((one) => one.toFixed(2)), textposition: "outside", cliponaxis: false,
        increasing: { marker: { color: COLORS[state.focus] } }, totals: { marker: { color: css("--accent") } }, connector: { line: { color: css("--line") } }, hovertemplate: "%{x}: %{text} ms<extra></extra>" },
      { type: "bar", x: [`${tokens.toFixed(2)} plain steps`], y: [plain * tokens], text: [(plain * tokens).toFixed(2)], textposition: "outside", cliponaxis: false, marker: { color: css("--soft") }, hovertemplate: "%{y:.3f} ms<extra></extra>" },
    ], { yaxis: { title: { text: "time (ms)" }, range: [0, Math.max(total, plain * tokens) * 1.15] } },
      `A round with ${drafts(length)}: draft ${bars[0].toFixed(2)} ms, verify ${bars[1].toFixed(2)} ms, engine ${bars[2].toFixed(2)} ms, in all ${total.toFixed(2)} ms for ${tokens.toFixed(2)} tokens, which take ${(plain * tokens).toFixed(2)} ms in plain steps`);
  }

  function drawMap() {
    const rows = figures.map;
    if (!rows) {
      draw("map", [], { xaxis: { visible: false }, yaxis: { visible: false }, annotations: [{ text: "no figures here", showarrow: false }] }, "No figures here");
      return;
    }
    const known = hasRoom;
    const z = rows.map((line) => line.map((one) => known(one) ? one.best_draft_len : null));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const scale = dark ? [[0, "#1d2731"], [1, "#2f7fc4"]] : [[0, "#f0f4f8"], [1, "#5aa5e3"]];
    draw("map", [{ type: "heatmap", x: tables.batch_size.map(String), y: tables.context_len.map(String), z, zmin: 0, zmax: tables.max_draft_len, colorscale: scale, showscale: false, xgap: 2, ygap: 2,
      text: rows.map((line) => line.map((one) => known(one) ? String(one.best_draft_len) : "")), texttemplate: "%{text}", textfont: { color: css("--ink") },
      customdata: rows.map((line) => line.map((one) => times(one.best_speedup))), hovertemplate: "batch %{x}, context %{y}: %{z} drafts, %{customdata}<extra></extra>", hoverongaps: false }],
    { xaxis: { type: "category", title: { text: "batch (sequences)" } }, yaxis: { type: "category", title: { text: "context (tokens)" } } },
      `Best draft length of ${spec(state.drafters[state.focus])} by batch and context; no figure where the server has no room for drafts`);
  }

  // --- to take away -------------------------------------------------------------------------------

  const OPTION_FLAGS = { granularity: "--granularity", experts: "--experts", count: "--count", recurrent_state: "--recurrent-state",
    state_dtype: "--state-dtype", kv_dtype: "--kv-cache", weight_dtype: "--weights", v4_attention: "--v4-attention", cost_of: "--cost-of" };
  const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`;

  function command() {
    const words = ["specroof", "predict", state.model, "-H", state.chip, "--tp", state.devices, "--engine", state.engine, "--context", state.context, "--batch", state.batch];
    state.drafters.forEach((one) => words.push("--drafter", spec(one)));
    for (const [name, value] of Object.entries(tables.options)) {
      if (name === "strict_dtype") words.push("--strict-dtype");
      else words.push(OPTION_FLAGS[name], value);
    }
    if (!state.limited) words.push("--no-capacity");
    return words.map((word) => quoted(String(word))).join(" ");
  }

  function python() {
    const text = JSON.stringify;
    const value = (one) => one === true ? "True" : text(one);
    const options = Object.entries(tables.options).map(([name, one]) => `${text(name)}: ${value(one)}`);
    const lines = [`${text(state.model)}, ${text(state.chip)},`, `drafters=[${state.drafters.map((one) => text(spec(one))).join(", ")}],`,
      `batch_size=${state.batch}, context_len=${state.context}, tensor_parallel=${state.devices}, engine=${text(state.engine)},`];
    if (options.length) lines.push(`options={${options.join(", ")}},`);
    if (!state.limited) lines.push("capacity=False,");
    return `import specroof\n\nspecroof.predict(\n${lines.map((line) => `    ${line}`).join("\n")}\n)`;
  }

  function showFlags() {
    const drafter = state.drafters[state.focus], length = chosenLength(), parts = [];
    const known = tables.flags[drafter.kind];
    if (!known) parts.push(element("p", `A drafter given by its cost alone has no flags; choose one of ${PRICED.join(", ")}.`));
    else if (!length) parts.push(element("p", "Run without speculation: no flags."));
    else {
      const names = Object.keys(known).sort((one, two) => (two === state.engine) - (one === state.engine));
      for (const name of names) {
        const block = element("pre", known[name][length - 1]);
        block.tabIndex = 0;
        parts.push(element("p", `${name}, ${drafts(length)} of ${drafter.kind}:`), block);
      }
    }
    $("flags").replaceChildren(...parts);
    $("command").textContent = command();
    $("python").textContent = python();
  }

  async function copy(id) {
    try {
      await navigator.clipboard.writeText($(id).textContent);
      $("copied").textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren($(id));
      $("copied").textContent = "Selected; copy it with the keyboard.";
    }
  }

  // --- controls -----------------------------------------------------------------------------------

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, text, disabled]) => {
      const option = element("option", text);
      option.value = value;
      option.disabled = Boolean(disabled);
      option.selected = String(value) === String(chosen);
      return option;
    }));
  }

  const engineWords = (name) => ({ ideal: "ideal (textbook)", generic: "generic" })[name] || `${name} (fitted)`;

  function showControls() {
    fill($("model"), tables.models.map((one) => [one, one]), state.model);
    fill($("chip"), tables.hardware.map(([word, name]) => [word, name]), state.chip);
    fill($("devices"), [...new Set(cells.map((one) => one.devices))].map((one) => [one, one]), state.devices);
    fill($("engine"), cells.filter((one) => one.devices === state.devices).map((one) => [one.engine, engineWords(one.engine)]), state.engine);
    $("context").max = tables.context_len.length - 1;
    $("context").value = tables.context_len.indexOf(state.context);
    $("batch").max = tables.batch_size.length - 1;
    $("batch").value = tables.batch_size.indexOf(state.batch);
    $("limited").checked = state.limited;
    $("add").hidden = state.drafters.length >= MOST_DRAFTERS;
    const boxes = [...$("drafters").children];
    while (boxes.length > state.drafters.length) boxes.pop().remove();
    state.drafters.forEach((drafter, d) => showDrafter(drafter, d, boxes[d] || drafterBox(d)));
    fill($("focus"), state.drafters.map((one, d) => [d, spec(one)]), state.focus);
    $("length").min = 0;
    $("length").max = tables.max_draft_len;
    showValues();
  }

  function showValues() {
    $("context-value").textContent = `${state.context.toLocaleString("en")} tokens`;
    $("batch-value").textContent = `${state.batch} sequences`;
    $("context").setAttribute("aria-valuetext", $("context-value").textContent);
    $("batch").setAttribute("aria-valuetext", $("batch-value").textContent);
    const length = chosenLength();
    $("length").value = length;
    $("length-value").textContent = state.length === null ? `${length} (best)` : String(length);
    state.drafters.forEach((drafter, d) => {
      const box = $("drafters").children[d];
      const say = (name, text) => {
        box.querySelector(`.${name}-box output`).textContent = text;
        box.querySelector(`.${name}-box input`).setAttribute("aria-valuetext", text);
      };
      if (drafter.law === "accept") say("accept", `${Math.round(drafter.accept * 100)} %`);
      if (drafter.law === "accept-length") { say("length", drafter.length.toFixed(1)); say("depth", String(drafter.depth)); }
      if (drafter.cost !== undefined) say("cost", `${Number((drafter.cost * 100).toFixed(1))} %`);
      if (drafter.kind === "block") say("drafts", String(drafter.drafts));
    });
    [...$("focus").options].forEach((option, d) => { option.textContent = spec(state.drafters[d]); });
  }

  function drafterBox(d) {
    const box = $("drafter-template").content.firstElementChild.cloneNode(true);
    const the = (name) => box.querySelector(`.${name}`);
    const drafter = () => state.drafters[d];
    const changed = (change, rebuild = false) => () => { change(); return rebuild ? refresh() : redraw(); };
    the("kind").addEventListener("change", changed(() => {
      state.drafters[d] = newDrafter(the("kind").value, drafter());
      if (state.focus === d) state.length = null;
    }, true));
    the("law").addEventListener("change", changed(() => { withLaw(drafter(), the("law").value); }, true));
    the("profile").addEventListener("change", changed(() => { drafter().profile = the("profile").value; }));
    the("accept").addEventListener("input", changed(() => { drafter().accept = Number(the("accept").value) / 100; }));
    the("cost").addEventListener("input", changed(() => { drafter().cost = Number((Number(the("cost").value) * 0.005).toFixed(3)); }));
    the("drafts").addEventListener("input", changed(() => { drafter().drafts = Number(the("drafts").value); }));
    the("stated").addEventListener("input", changed(() => { drafter().length = lengthOf(the("stated").value); }));
    the("depth").addEventListener("input", changed(() => {
      drafter().depth = tables.length_depths[Number(the("depth").value)];
      drafter().length = Math.min(drafter().length, drafter().depth + 1);
      the("stated").max = drafter().depth * tables.length_steps;
      the("stated").value = Math.round((drafter().length - 1) * tables.length_steps);
    }));
    the("remove").addEventListener("click", changed(() => {
      state.drafters.splice(d, 1);
      if (state.focus > d || state.focus === state.drafters.length) state.focus = Math.max(state.focus - 1, 0);
      state.length = null;
    }, true));
    $("drafters").append(box);
    return box;
  }

  const lengthOf = (steps) => Number((1 + Number(steps) / tables.length_steps).toFixed(3));

  function newDrafter(kind, before) {
    const drafter = { kind };
    if (kind === "ideal") return drafter;
    drafter.law = before.law === "profile" || !before.law ? "accept" : before.law;
    withLaw(drafter, drafter.law, before);
    if (kind === "autoregressive" || kind === "block") drafter.cost = before.cost ?? 0.1;
    if (kind === "block") drafter.drafts = before.drafts ?? 15;
    return drafter;
  }

  function withLaw(drafter, law, before = drafter) {
    const { accept = 0.75, length = 2.8, depth = 3 } = before;
    for (const key of ["accept", "length", "depth", "profile"]) delete drafter[key];
    drafter.law = law;
    if (law === "accept") drafter.accept = accept;
    if (law === "accept-length") Object.assign(drafter, { length, depth });
    if (law === "profile") {
      const own = (one) => state.model.toLowerCase().includes(one.model.toLowerCase());
      drafter.profile = (tables.profiles.find(own) || tables.profiles[0]).name;
    }
  }

  function showDrafter(drafter, d, box) {
    const the = (name) => box.querySelector(`.${name}`);
    the("number").textContent = `Drafter ${d + 1}`;
    the("swatch").style.background = COLORS[d];
    the("swatch").style.clipPath = SHAPES[d];
    fill(the("kind"), Object.entries(KINDS).map(([kind, text]) => [kind, offered(kind) ? text : `${text} (not with this engine)`, !offered(kind)]), drafter.kind);
    fill(the("law"), Object.entries(LAWS), drafter.law);
    const shows = { law: drafter.kind !== "ideal", accept: drafter.law === "accept", length: drafter.law === "accept-length", depth: drafter.law === "accept-length",
      profile: drafter.law === "profile", cost: drafter.cost !== undefined, drafts: drafter.kind === "block" };
    for (const [name, visible] of Object.entries(shows)) the(`${name}-box`).hidden = !visible;
    if (shows.accept) the("accept").value = Math.round(drafter.accept * 100);
    if (shows.cost) the("cost").value = Math.round(drafter.cost / 0.005);
    if (shows.drafts) the("drafts").value = drafter.drafts;
    if (shows.length) {
      the("stated").max = drafter.depth * tables.length_steps;
      the("stated").value = Math.round((drafter.length - 1) * tables.length_steps);
      the("depth").max = tables.length_depths.length - 1;
      the("depth").value = tables.length_depths.indexOf(drafter.depth);
    }
    if (shows.profile) fill(the("profile"), tables.profiles.map((one) => [one.name, one.name]), drafter.profile);
    the("remove").hidden = state.drafters.length === 1;
    the("remove").setAttribute("aria-label", `Remove drafter ${d + 1}`);
  }

  // --- the loop -----------------------------------------------------------------------------------

  function choose() {
    const devices = [...new Set(cells.map((one) => one.devices))];
    if (!devices.includes(state.devices)) {
      const usual = cells.find((one) => one.engine === (state.engine || usualEngine));
      state.devices = (usual || cells[0])?.devices ?? tables.devices[0];
    }
    const here = cells.filter((one) => one.devices === state.devices);
    cell = here.find((one) => one.engine === state.engine) || here.find((one) => one.engine === usualEngine) || here[0] || null;
    if (state.engine && cell && cell.engine !== state.engine) refuse([`engine is ${shown(state.engine)}; allowed here: ${here.map((one) => one.engine).join(", ")}`], true);
    state.engine = cell?.engine ?? "";
    if (!state.drafters.length) state.drafters = usualDrafters();
  }

  let usualEngine = "ideal", turn = 0;

  /** Load what the state asks for, then show everything. */
  async function refresh() {
    const mine = ++turn;
    try {
      const found = await section(state.model, state.chip);
      if (mine !== turn) return;
      cells = found.cells;
      usualEngine = found.default_engine;
      choose();
      if (!cell) throw new Error(`${state.model} cannot be spread over these devices of ${state.chip}`);
      figures = computed();
      showControls();
      redraw();
    } catch (refusal) {
      if (mine === turn) refuse([refusal.message]);
    }
  }

  /** Show the figures of the state again. */
  function redraw() {
    figures = computed();
    showValues();
    showFigures();
    drawByLength();
    drawByBatch();
    drawRound();
    drawMap();
    showFlags();
    try { history.replaceState(null, "", address()); } catch { /* a frame without an address of its own */ }
    document.documentElement.dataset.turn = String(Number(document.documentElement.dataset.turn || 0) + 1);
  }

  function refuse(lines, more = false) {
    const box = $("refusals");
    box.textContent = more && !box.hidden ? `${box.textContent}\n${lines.join("\n")}` : lines.join("\n");
    box.hidden = !lines.length;
  }

  function fromAddress() {
    const [found, wrong] = readAddress(location.hash);
    state = found;
    refuse(wrong);
    return refresh();
  }

  function listen() {
    const on = (id, event, change, rebuild) => $(id).addEventListener(event, () => { refuse([]); change($(id)); return rebuild ? refresh() : redraw(); });
    on("model", "change", (one) => { state.model = one.value; state.engine = ""; }, true);
    on("chip", "change", (one) => { state.chip = one.value; state.engine = ""; }, true);
    on("devices", "change", (one) => { state.devices = Number(one.value); }, true);
    on("engine", "change", (one) => { state.engine = one.value; }, true);
    on("context", "input", (one) => { state.context = tables.context_len[Number(one.value)]; });
    on("batch", "input", (one) => { state.batch = tables.batch_size[Number(one.value)]; });
    on("limited", "change", (one) => { state.limited = one.checked; });
    on("focus", "change", (one) => { state.focus = Number(one.value); state.length = null; });
    on("length", "input", (one) => { state.length = Number(one.value); });
    on("add", "click", () => { state.drafters.push(newDrafter("autoregressive", {})); }, true);
    $("controls").addEventListener("submit", (event) => event.preventDefault());
    $("copy-command").addEventListener("click", () => copy("command"));
    $("copy-python").addEventListener("click", () => copy("python"));
    addEventListener("hashchange", () => { if (location.hash !== address()) fromAddress(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (figures) redraw(); });
  }

  async function start() {
    await Promise.all(Object.values(tables.typical).flatMap((curves) => Object.entries(curves).map(
      async ([name, packed]) => { curves[name] = await specroof.unpacked(packed, tables.quantum); })));
    listen();
    await fromAddress();
  }

  start().catch((failure) => refuse([failure.message]));
  return { receive, figures: () => ({ state, ...figures }) };
})();
