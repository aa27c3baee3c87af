// The page: state in the address, controls, charts. Text goes in as text, never as HTML.
"use strict";

globalThis.specroofPage = (() => {
  const $ = (id) => document.getElementById(id);
  const tables = JSON.parse($("tables").textContent);
  const COLORS = ["#3d8fd9", "#d9822b", "#2ba57a", "#b566c9"];
  // A shape for each drafter besides its color, in charts and beside its controls.
  const MARKS = ["circle", "square", "triangle", "diamond"];
  const SHAPES = [
    "circle(50%)",
    "none",
    "polygon(50% 0, 100% 100%, 0 100%)",
    "polygon(50% 0, 100% 50%, 50% 100%, 0 50%)",
  ];
  const KINDS = {
    mtp: "MTP",
    eagle3: "EAGLE-3",
    dflash: "DFlash",
    ngram: "n-gram",
    autoregressive: "your drafter",
    block: "your block drafter",
    ideal: "ideal drafter",
  };
  /** What a kind is called where one is chosen. */
  const CHOICES = {
    ...KINDS,
    autoregressive: "your own, token by token",
    block: "your own, a block at once",
    ideal: "ideal (upper bound)",
  };
  const SERVERS = {
    vllm: "vLLM",
    sglang: "SGLang",
    "tensorrt-llm": "TensorRT-LLM",
    atom: "ATOM",
    "llama.cpp": "llama.cpp",
    ideal: "roofline",
  };
  const LAWS = { usual: "as published", profile: "one published profile", "accept-length": "tokens per round", accept: "rate of each draft" };
  let PRICED; // kinds with an acceptance of their own, by `tables.usual`
  /** Bands that span a larger factor say too little. */
  const WIDEST_BAND = 3,
    NOT_USEFUL = "not usefully predicted here";
  const isUseful = (low, high) => high <= WIDEST_BAND * low;
  /** Published measurements are near within these factors: of active parameters on a device, of tokens per round,
   * and of the context. */
  const NEAR = { size: 2, tokens: 1.2, context: 8 };
  const MOST_ADDRESS = 4000,
    MOST_DRAFTERS = 4,
    MOST_PARTS = 3;
  // What a user may ask for: seconds to the first token, and of each later one; 0 is anything.
  const TPOTS = [0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1],
    TTFTS = [0, 0.2, 0.5, 1, 2, 5, 10];
  const waiting = new Map(),
    sections = new Map();
  /** What is served, and what stands beside it: words of the address, grids, and figures. */
  const setups = [{ suffix: "" }, { suffix: "2" }];
  /** Answers and shares of a prompt that are cached to choose from. */
  const [answers, hitRates] = [1, 2].map((part) => [...new Set(tables.workloads.map((one) => one[part]))].sort((one, other) => one - other));
  const chips = tables.hardware.map(({ word }) => word);
  let state;

  // --- state: checked on the way in, never evaluated ---------------------------------------------

  const ALONE = { model2: "", chip2: "", devices2: 0, engine2: "" };
  const DEFAULT = () => ({
    model: tables.models[0],
    chip: chips[0],
    devices: 0,
    engine: "",
    ...ALONE,
    limited: true,
    context: nearest(tables.context_len, tables.usual_context),
    batch: nearest(tables.batch_size, tables.usual_batch),
    answer: answers.includes(tables.usual_answer) ? tables.usual_answer : 0,
    hits: 0,
    tpot: 0,
    ttft: 0,
    temperature: null,
    drafters: [],
    focus: null,
    length: null,
  });

  /** Drafters that a page begins with: those of the model that its server runs, else shares of a step. */
  function usualDrafters() {
    const setup = setups[0];
    const own = begunKinds(state.model)
      .map(parsedSpec)
      .filter((drafter) => !setup.cell || (offered(setup.cell, drafter.kind) && !refused(setup, drafter)));
    if (own.length) return own;
    const others = ["ngram", "block,accept=0.89,cost=0.1,drafts=16"].map(parsedSpec);
    return [others.find((drafter) => !setup.cell || (offered(setup.cell, drafter.kind) && !refused(setup, drafter)))];
  }

  const begunKinds = (model) => tables.begun[tables.models.indexOf(model)];

  function nearest(values, wanted) {
    return values.reduce((best, one) => (Math.abs(one - wanted) < Math.abs(best - wanted) ? one : best));
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
      throw new Error(
        `${name} is ${shown(text)}; allowed: ${allowed.slice(0, 12).join(", ")}${allowed.length > 12 ? ", …" : ""}`,
      );
    }
    return found;
  }

  const shown = (text) => `“${text.length > 60 ? `${text.slice(0, 60)}…` : text}”`;

  /** A drafter as a command spells it. */
  function spec(drafter) {
    const law =
      {
        accept: () => `,accept=${drafter.accept}`,
        "accept-length": () => `,accept-length=${drafter.length}@${drafter.depth}`,
        profile: () => `,profile=${drafter.profile}`,
      }[drafter.law] || (() => "");
    const cost = drafter.cost === undefined ? "" : `,cost=${drafter.cost}`;
    return `${drafter.kind}${law()}${cost}${drafter.kind === "block" ? `,drafts=${drafter.drafts}` : ""}`;
  }

  /** The temperature that the acceptance of a drafter was measured at; null where none is stated. */
  const statedTemperature = (drafter) => (specroof.isPublished(drafter) ? profileOf(drafter).temperature : null);

  /** The temperature to which the acceptance of a drafter is moved; undefined where it is as measured. */
  function movedTo(drafter) {
    const own = statedTemperature(drafter);
    return own === null || own === state.temperature ? undefined : (state.temperature ?? undefined);
  }

  /** Whether a command moves all drafters by one flag: it refuses one whose acceptance states no temperature. */
  const movedByFlag = () =>
    state.drafters.some((one) => one.law === "usual" && movedTo(one) !== undefined) &&
    state.drafters.every((one) => one.kind === "ideal" || statedTemperature(one) !== null);

  /** A drafter on a server at the temperature that is asked for: as it is computed, and as a command spells it. */
  function sampled(drafter, framework = setups[0].cell?.framework) {
    const temperature = movedTo(drafter);
    if (drafter.law !== "usual") return { ...drafter, temperature };
    if (temperature !== undefined && !movedByFlag())
      return { ...drafter, law: "profile", profile: profileOf(drafter).name, temperature };
    return { ...drafter, usual: usualPlace(drafter.kind, framework), temperature };
  }
  function sampledSpec(drafter) {
    const { temperature, ...one } = sampled(drafter);
    return temperature === undefined || movedByFlag() ? spec(drafter) : `${spec(one)},temperature=${temperature}`;
  }

  function parsedSpec(text) {
    const [kind, ...pairs] = text.split(",");
    const values = new Map(
      pairs.map((pair) => {
        const at = pair.indexOf("=");
        return [pair.slice(0, at), pair.slice(at + 1)];
      }),
    );
    const name = (key) => `${key} of drafter ${shown(text)}`;
    const drafter = { kind: oneOf("drafter", kind, Object.keys(KINDS)) };
    const taken = [];
    const take = (key) => {
      taken.push(key);
      return values.get(key) ?? "";
    };
    if (kind !== "ideal") {
      drafter.law = Object.keys(LAWS).find((law) => values.has(law)) || (PRICED.includes(kind) ? "usual" : "accept");
      const given = drafter.law === "usual" ? "" : take(drafter.law);
      if (drafter.law === "accept") drafter.accept = numberIn(name("accept"), given, 0, 1, 0.01);
      if (drafter.law === "profile")
        drafter.profile = oneOf(
          name("profile"),
          given,
          tables.profiles.map((one) => one.name),
        );
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
    model: (text) => oneOf("model", text, tables.models),
    chip: (text) => oneOf("chip", text, chips),
    devices: (text) => oneOf("devices", text, [0, ...tables.devices]),
    engine: (text) => text,
    model2: (text) => oneOf("model2", text, ["", ...tables.models]),
    chip2: (text) => oneOf("chip2", text, ["", ...chips]),
    devices2: (text) => oneOf("devices2", text, [0, ...tables.devices]),
    engine2: (text) => text,
    context: (text) => oneOf("context", text, tables.context_len),
    batch: (text) => oneOf("batch", text, tables.batch_size),
    answer: (text) => oneOf("answer", text, [0, ...answers]),
    hits: (text) => oneOf("hits", text, hitRates),
    tpot: (text) => oneOf("tpot", text, TPOTS),
    ttft: (text) => oneOf("ttft", text, TTFTS),
    temperature: (text) => oneOf("temperature", text, tables.temperatures),
    limited: (text) => oneOf("limited", text, ["1", "0"]) === "1",
    focus: (text) => (text === "best" ? null : numberIn("focus", text, 0, MOST_DRAFTERS - 1, 1)),
    length: (text) => (text === "best" ? null : numberIn("length", text, 0, tables.max_draft_len, 1)),
  };

  /** The state that an address says, and what it says wrongly. */
  function readAddress(hash) {
    const found = DEFAULT(),
      wrong = [];
    if (hash.length > MOST_ADDRESS) {
      return [found, [`the address has ${hash.length} characters; allowed: at most ${MOST_ADDRESS}`]];
    }
    const words = new URLSearchParams(hash.replace(/^#/, ""));
    const drafters = words.getAll("drafter");
    for (const [key, text] of words) {
      if (key === "drafter") continue;
      try {
        if (!Object.hasOwn(READ, key))
          throw new Error(`the address has ${shown(key)}; allowed: ${Object.keys(READ).join(", ")}, drafter`);
        found[key] = READ[key](text);
      } catch (refusal) {
        wrong.push(refusal.message);
      }
    }
    if (drafters.length > MOST_DRAFTERS)
      wrong.push(`the address has ${drafters.length} drafters; allowed: up to ${MOST_DRAFTERS}`);
    const read = drafters.slice(0, MOST_DRAFTERS).flatMap((text) => {
      try {
        return [parsedSpec(text)];
      } catch (refusal) {
        wrong.push(refusal.message);
        return [];
      }
    });
    if (!found.model2 || !found.chip2) Object.assign(found, ALONE);
    if (read.length) found.drafters = read;
    if (found.focus !== null) found.focus = Math.min(found.focus, Math.max(read.length, 1) - 1);
    return [found, wrong];
  }

  /** The address of what is shown; what is as it begins is left out. */
  function address() {
    const words = new URLSearchParams(),
      usual = DEFAULT();
    for (const key of Object.keys(READ)) {
      if (["model", "chip", "devices", "engine"].includes(key) || state[key] !== usual[key]) {
        words.set(key, key === "limited" ? "0" : (state[key] ?? "best"));
      }
    }
    for (const drafter of state.drafters) words.append("drafter", spec(drafter));
    return `#${words}`;
  }

  // --- grids: inside of the page, or in files beside it ------------------------------------------

  function receive(name, section) {
    waiting.get(name)?.(section);
  }

  async function section(model, chip) {
    const place = tables.grids[tables.models.indexOf(model)],
      name = tables.is_whole ? String(place) : `${place}-${chips.indexOf(chip)}`;
    if (!sections.has(name)) {
      sections.set(name, loaded(name));
      sections.get(name).catch(() => sections.delete(name)); // to be asked for again
    }
    return (await sections.get(name))[chip];
  }

  async function loaded(name) {
    const packed = tables.sections
      ? tables.sections[name]
      : await new Promise((resolve, reject) => {
          waiting.set(name, resolve);
          const script = document.createElement("script");
          script.src = `grid-${name}.js`;
          script.onerror = () => reject(new Error(`grid-${name}.js cannot be read; it lies beside this page`));
          document.head.append(script);
        });
    const { things, chips: own, sure } = await specroof.unpacked(packed);
    return Object.fromEntries(
      Object.entries(own).map(([chip, shared]) => [
        chip,
        { ...shared, sure, cells: things.filter((cell) => cell.chip === chip) },
      ]),
    );
  }

  // --- figures ------------------------------------------------------------------------------------

  const at = () => [tables.context_len.indexOf(state.context), tables.batch_size.indexOf(state.batch)];
  const offered = (cell, kind) => !PRICED.includes(kind) || Boolean(cell.drafting[kind]);
  const shownSetups = () => setups.slice(0, state.model2 ? 2 : 1);
  const hasPrompt = (context = state.context) => state.answer > 0 && context - state.answer / 2 >= 1;
  /** The requests that a set-up answers; null where prompts are not counted, as on the textbook engine. */
  function loadOf(cell, context = state.context) {
    if (!cell?.requests.length || !hasPrompt(context)) return null;
    const place = tables.workloads.findIndex(
      ([length, answer, hits]) => length === context && answer === state.answer && hits === state.hits,
    );
    return place < 0 ? null : { place, answer: state.answer };
  }

  /** Which preset the requests are at a context; -1 for none. */
  const presetAt = (context) =>
    tables.presets.findIndex(
      (one) =>
        one.context_len === context && one.output_len === state.answer && one.prefix_hit_rate === state.hits,
    );

  /** One drafter at one load: as it was simulated, where all that is shown beside it was; else in closed form. */
  function point(drafter, cell, c, b) {
    const closed = inClosedForm(drafter, cell, c, b),
      at = [presetAt(tables.context_len[c]), tables.clients.indexOf(tables.batch_size[b])];
    const simulated = shownSetups().every((setup) => !setup.cell || setup.cell.played);
    if (!simulated || Math.min(...at) < 0 || !state.limited || state.tpot || state.ttft) return closed;
    const as = (one) => {
      const order = movedTo(one) === undefined ? cell.played.drafters.indexOf(spec(one)) : -1;
      return order < 0 ? null : specroof.played(closed, tables, cell.played, [at[0], order, at[1]]);
    };
    return state.drafters.every(as) ? as(drafter) : closed;
  }

  /** One drafter at one load of the steady state, and the drafts that are advised there. */
  function inClosedForm(drafter, cell, c, b) {
    const load = loadOf(cell, tables.context_len[c]);
    const curve = specroof.curve(sampled(drafter, cell.framework), cell, tables, c, b, state.limited, load);
    const targets = { tpot: state.tpot || Infinity, ttft: state.ttft || Infinity };
    return { ...curve, choice: specroof.decided(curve, targets) };
  }

  /** Every figure of a set-up; null for what it has no grid of. Those of charts that fold are made when asked for. */
  function computed(setup) {
    const { cell } = setup,
      [i, j] = at();
    const able = state.drafters.map((drafter) => Boolean(cell) && offered(cell, drafter.kind));
    return {
      curves: state.drafters.map((drafter, d) => (able[d] ? point(drafter, cell, i, j) : null)),
      batches: state.drafters.map((drafter, d) =>
        able[d] ? tables.batch_size.map((_, b) => point(drafter, cell, i, b)) : null,
      ),
      get map() {
        const focus = state.drafters[inFocus()];
        return able[inFocus()]
          ? tables.context_len.map((_, c) => tables.batch_size.map((__, b) => point(focus, cell, c, b)))
          : null;
      },
      get acceptance() {
        const focus = state.drafters[inFocus()];
        return able[inFocus()] && focus.kind !== "ideal"
          ? acceptances(focus).map((drafter) => ({ drafter, ...inClosedForm(drafter, cell, i, j) }))
          : null;
      },
    };
  }

  /** The drafter that is shown: the one that was chosen, else the best at this load. */
  function inFocus() {
    if (state.focus !== null) return state.focus;
    const setup = setups[0];
    const gains = state.drafters.map((drafter, d) => {
      const curve = setup.figures?.curves[d];
      if (drafter.kind === "ideal" || absence(setup, drafter, curve)) return -Infinity;
      const { draft_len, tried } = curve.choice;
      return draft_len ? 1 + curve.speedup[draft_len] : curve.speedup[tried] / (1 + curve.speedup[tried]);
    });
    return Math.max(gains.indexOf(Math.max(...gains)), 0);
  }

  /** The drafter with every acceptance that its slider has: rates, or lengths where it was measured. */
  function acceptances(drafter) {
    if (drafter.law === "accept-length") {
      return Array.from({ length: drafter.depth * tables.length_steps + 1 }, (_, step) => ({
        ...drafter,
        length: lengthOf(step),
      }));
    }
    const { profile, ...others } = drafter;
    return Array.from({ length: 51 }, (_, step) => ({ ...others, law: "accept", accept: step / 50 }));
  }

  const digits = (value, places = 3) =>
    Number.isFinite(value) ? value.toLocaleString("en", { maximumSignificantDigits: places }) : "–";
  const times = (value) => (Number.isFinite(value) ? `${value.toFixed(2)}×` : "–");
  const millis = (value) => (!Number.isFinite(value) ? "–" : value === 0 ? "0" : digits(value * 1e3, 3));
  const seconds = (value) => (!Number.isFinite(value) ? "–" : value < 1 ? `${millis(value)} ms` : `${digits(value)} s`);
  const money = (value) => (Number.isFinite(value) ? `$${value < 0.1 ? value.toPrecision(2) : value.toFixed(2)}` : "–");
  const drafts = (count) => `${count} draft${count === 1 ? "" : "s"}`;
  const range = ([low, high]) => (low === high ? String(low) : `${low}–${high}`);
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const chipOf = (word) => tables.hardware[chips.indexOf(word)];
  const chipName = (word) => chipOf(word).name;
  const engineWords = (name) => SERVERS[name] ?? name;
  const short = (model) => model.split("/").at(-1);

  /** What a set-up is called: model, devices, chip and engine. */
  const titleOf = ({ words, cell }) =>
    `${short(words.model)} on ${cell ? `${cell.devices} × ` : ""}${chipName(words.chip)}${cell ? `, ${engineWords(cell.engine)}` : ""}`;

  // --- what drafters are called, and where their acceptance comes from ---------------------------

  /** Where `tables.usual` has the acceptance of a kind, as a server accepts drafts. */
  function usualPlace(kind, framework) {
    const place = tables.usual.of_models[kind][tables.models.indexOf(state.model)];
    return tables.usual.under[framework]?.[place] ?? place;
  }

  const profileOf = (drafter) =>
    drafter.law === "usual"
      ? tables.usual.rows[usualPlace(drafter.kind, setups[0].cell?.framework)]
      : tables.profiles.find(({ name }) => name === drafter.profile);
  const ownProfiles = (kind) =>
    tables.own_profiles[tables.models.indexOf(state.model)]
      .map((place) => tables.profiles[place])
      .filter((profile) => profile.kind === kind);

  /** Whether the acceptance of a drafter was measured, is assumed, or is what the reader says. */
  function statusOf(drafter) {
    if (drafter.kind === "ideal") return "accepts all";
    if (specroof.isPublished(drafter)) {
      const { name, model, kind, temperature } = profileOf(drafter),
        asked = movedTo(drafter);
      const moved = asked === undefined ? "" : ` at T=${temperature}, moved to T=${asked}`;
      if (ownProfiles(kind).some((profile) => profile.name === name)) return `measured${moved}`;
      return `${drafter.law === "usual" ? "assumed, as" : "measured"} on ${model}${moved}`;
    }
    return "yours";
  }

  /** What is known of its acceptance, in words. */
  const acceptanceWords = (drafter) =>
    ({
      accept: () => `each draft accepted at a rate of ${Math.round(drafter.accept * 100)} %`,
      "accept-length": () => `${drafter.length} tokens per round with ${drafts(drafter.depth)}`,
      profile: () => `accepted as on ${profileOf(drafter).task || profileOf(drafter).name}`,
    })[specroof.isPublished(drafter) ? "profile" : drafter.law]?.() ?? "every draft accepted";

  /** What the acceptance of a drafter leaves open, or that it is a bound; empty where there is nothing to say. */
  function aboutAcceptance(drafter) {
    if (drafter.kind === "ideal") return "Accepts every draft and costs nothing: what no drafter can exceed.";
    if (drafter.law !== "usual") return "";
    const { name, tokens, below, above } = profileOf(drafter),
      last = tokens.filter((one) => one !== null).length - 1;
    const ends = [-below[last], above[last]].map((far) => (tokens[last] * Math.exp(far)).toFixed(2));
    const others = statusOf(drafter).startsWith("measured") ? "texts" : "models and texts";
    return `Profile ${name}${ends[0] === ends[1] ? "" : `; with other ${others} ${ends.join(" to ")} tokens per round of ${drafts(last)}, which the band counts`}.`;
  }

  /** Where the acceptance of a drafter comes from, in parentheses; a name like "your drafter" says it already. */
  const origin = (drafter) => (KINDS[drafter.kind].startsWith("your ") && statusOf(drafter) === "yours" ? "" : ` (${statusOf(drafter)})`);

  /** A name that is short, and told apart from the others on the page. */
  function nameOf(drafter) {
    const short = (one) => `${KINDS[one.kind]}${origin(one)}`;
    const alike = state.drafters.filter((one) => short(one) === short(drafter));
    return alike.length > 1 ? `${KINDS[drafter.kind]}, ${acceptanceWords(drafter)}` : short(drafter);
  }

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  /** Dollars of a million tokens, at so many a second; NaN where the chip has no price. */
  function price(setup, tokens_per_s) {
    const hourly = chipOf(setup.words.chip).usd_per_hour;
    return hourly === null ? NaN : (1e6 * hourly * setup.cell.devices) / (3600 * tokens_per_s);
  }

  // --- why a figure is missing: one line each -----------------------------------------------------

  const hasDrafts = (curve) => curve.speedup.slice(1).some(Number.isFinite);

  /** Why a server runs no more, in words. */
  const bound = (by) =>
    by === "running"
      ? "its default limit of running requests"
      : by === "cache"
        ? "memory for the KV cache"
        : `memory (${by})`;

  /** The rule that a server has to be told for the acceptance of a drafter; at temperature 0 most keep the same tokens. */
  function ruleOf(drafter) {
    if (!specroof.isPublished(drafter)) return "";
    const { rule, temperature } = profileOf(drafter);
    return rule !== "lossy" && (movedTo(drafter) ?? temperature) === 0 ? "" : (rule ?? "");
  }

  /** Flags of a drafter by server, or why one does not run it; undefined for a share of time. */
  function flagsOf(drafter, model) {
    const found = tables.flags.texts[drafter.kind]?.[tables.flags.of_models[drafter.kind][tables.models.indexOf(model)]];
    return found && { ...found[""], ...found[ruleOf(drafter)] };
  }

  /** Why the server of a setup does not run a drafter; empty where it does. */
  function refused(setup, drafter) {
    const own = setup.cell && flagsOf(drafter, setup.words.model)?.[setup.cell.framework];
    if (typeof own === "string") return own.split("; allowed")[0];
    const rule = drafter.law === "profile" ? profileOf(drafter).rule : null,
      rules = setup.cell && tables.accepts[setup.cell.framework];
    return rule && rules && !rules.includes(rule)
      ? `its acceptance was measured with ${rule} sampling, which ${engineWords(setup.cell.framework)} does not have`
      : "";
  }

  /** Why there is no figure of a drafter here; empty where there is one. */
  function absence(setup, drafter, curve) {
    const { cell } = setup;
    if (!cell) return setup.refusal;
    const why = refused(setup, drafter);
    if (why) return why;
    if (!curve) {
      return `${short(setup.words.model)} cannot have a drafter of this kind that the page prices`;
    }
    const [plain, drafted] = curve.most;
    const by = curve.bound_by;
    if (curve.played) return "";
    if (state.limited && plain < 1)
      return `at a context of ${plural(state.context, "token")} not one request fits (${bound(by[0])})`;
    if (state.limited && drafted < state.batch) {
      return `the server runs at most ${drafted} of ${plural(state.batch, "request")} with one draft (${bound(by[1])})${plain < state.batch ? `, and ${plain} without` : ", and all of them without"}; the others wait. ${wouldDo(setup, drafter)}specroof advise with --concurrency ${state.batch} counts the wait`;
    }
    return hasDrafts(curve) ? "" : "its acceptance is not known at any draft length";
  }

  /** How many devices run all requests with drafts, as a sentence; empty where none on the page do. */
  function wouldDo({ section, cell }, { kind }) {
    const [i, j] = at();
    const enough = section.cells.find(
      (other) => other.engine === cell.engine && other.devices > cell.devices && mostDrafted(other, kind, i, j) >= state.batch,
    );
    return enough ? `${plural(enough.devices, "device")} would run all of them. ` : "";
  }

  /** The largest batch that runs with one draft. */
  function mostDrafted(cell, kind, i, j) {
    const [, most] = specroof.largest(cell.drafting[kind] || cell, cell, tables, i, j, state.answer);
    return most[1];
  }

  /** Batches as runs: "1–8, 32". */
  function runs(batches) {
    const places = batches.map((batch) => tables.batch_size.indexOf(batch));
    const starts = places.filter((place, p) => p === 0 || places[p - 1] !== place - 1);
    return starts
      .map((start) => {
        let end = start;
        while (places.includes(end + 1)) end++;
        return range([tables.batch_size[start], tables.batch_size[end]]);
      })
      .join(", ");
  }

  /** Decisions over all batches, in one sentence. */
  function byBatch(batches, curve = null) {
    const says = new Map();
    tables.batch_size.forEach((batch, b) => {
      const word = hasDrafts(batches[b]) ? batches[b].choice.decision : "no room";
      says.set(word, [...(says.get(word) || []), batch]);
    });
    const order = ["on", "unclear", "off", "no room"].filter((word) => says.has(word));
    const parts = order.map((word) =>
      says.get(word).length === tables.batch_size.length
        ? `${word} at every load shown`
        : `${word} at ${runs(says.get(word))}`,
    );
    const full = curve && batches.find((each) => each && !hasDrafts(each));
    const [plain, drafted] = full?.most ?? [];
    const limits =
      full && Number.isFinite(drafted)
        ? ` (at most ${drafted.toLocaleString("en")} with drafts${plain === Infinity ? "" : `, ${plain.toLocaleString("en")} without`}: ${bound(full.bound_by[1])})`
        : "";
    return `By requests in flight: ${parts.join("; ")}${limits}.`;
  }

  /** Whether the default limit of the server is raised for the batch, with the flag for that; empty where it is not. */
  function raised(setup, curve) {
    const limit = curve?.raised_from?.[Math.max(curve.choice.draft_len, 1)] ?? Infinity;
    return limit < state.batch && curve.choice.draft_len
      ? `${tables.running_flags[setup.cell.framework] ?? "running"} ${Math.min(state.batch, curve.most[curve.choice.draft_len])}`
      : "";
  }

  /** The speedup with its band, as a sentence has it; a band that is too wide says so. */
  function band(low, high) {
    if (!Number.isFinite(low) || low === high) return "";
    return !isUseful(low, high) ? NOT_USEFUL : `likely ${low.toFixed(2)} to ${times(high)}`;
  }
  const bandAt = (curve, length) => (curve.speedup_low ? band(curve.speedup_low[length], curve.speedup_high[length]) : "");
  const within = (curve, length) => (bandAt(curve, length) ? ` (${bandAt(curve, length)})` : "");

  /** The draft length that is shown, and the decision at it: that of the load, or of the length that was chosen. */
  function shownAt(curve) {
    const { draft_len, tried, decision } = curve.choice;
    if (state.length === null) return { length: draft_len || tried, decision };
    const length = state.length;
    const [low, high] = [curve.speedup_low ?? curve.speedup, curve.speedup_high ?? curve.speedup].map((one) => one[length]);
    return { length, decision: !length || high < 1 ? "off" : low > 1 ? "on" : "unclear" };
  }

  /** The decision in one line, then what it says, why, and how sure it is. */
  function verdict(setup, d) {
    const drafter = state.drafters[d],
      curve = setup.figures.curves[d],
      missing = absence(setup, drafter, curve);
    const headline = (className, strong, more) => {
      const line = element("p", undefined, `decision ${className}`);
      line.append(element("strong", strong), element("span", more));
      return line;
    };
    const paragraphs = (...texts) => texts.filter(Boolean).map((text) => element("p", text));
    if (missing) {
      const word = refused(setup, drafter) ? "Not supported" : curve ? "No room" : "No figure";
      return [
        headline("", word, KINDS[drafter.kind]),
        ...paragraphs(`${missing}.`, curve && setup.figures.batches[d] && !refused(setup, drafter) ? byBatch(setup.figures.batches[d]) : ""),
      ];
    }
    const { length, decision } = shownAt(curve),
      bounding = drafter.kind === "ideal",
      gain = times(curve.speedup[length]),
      chosen = state.length !== null;
    if (!Number.isFinite(curve.speedup[length]))
      return [
        headline("", "No figure", drafts(length)),
        ...paragraphs(`${KINDS[drafter.kind]} makes no ${drafts(length)} here, or its acceptance is not known there.`),
      ];
    const word = { on: "On", off: "Off", unclear: "Unclear" }[decision];
    const what = `${drafts(length)} of ${KINDS[drafter.kind]}`;
    const line = chosen
      ? headline(bounding ? "" : decision, `With ${drafts(length)}: ${gain}`, [length ? word.toLowerCase() : "", bandAt(curve, length)].filter(Boolean).join("; "))
      : bounding
        ? headline("", `At most ${gain}`, `${what}: an upper bound`)
        : decision === "off"
          ? headline("off", "Off", `no drafts; ${drafts(length)} would give ${gain}${within(curve, length)}`)
          : headline(decision, `${word}: ${gain}`, bandAt(curve, length) || (setup.cell.engine === "ideal" ? "no band: a roofline" : ""));
    return [line, ...paragraphs(said(setup, d, length), why(setup, curve, length), sure(setup, drafter))];
  }

  /** What the decision means: the drafter, speeds, and what it takes. */
  function said(setup, d, length) {
    const drafter = state.drafters[d],
      curve = setup.figures.curves[d],
      { draft_len, tried, waits, missed } = curve.choice;
    const speeds = [0, length].map((one) => digits(curve.tokens_per_s_per_user[one]));
    const parts = [
      `${length ? `${drafts(length)} of ` : ""}${KINDS[drafter.kind]}, ${acceptanceWords(drafter)}${origin(drafter)}: ${speeds.join(" → ")} tokens/s for each user${state.length !== null || draft_len ? "" : ", if it drafted"}.`,
    ];
    if (state.length !== null) {
      const best = draft_len || tried;
      if (length !== best) parts.push(`The best length is ${best}: ${times(curve.speedup[best])}${draft_len ? "" : ", and the decision is off"}.`);
      if (curve.played && length !== best && length) parts.push(`Simulated is ${drafts(best)}; other lengths are estimated from it.`);
    } else if (missed) parts.push("Drafts miss the target, plain decoding meets it.");
    else if (waits)
      parts.push(
        `A first token takes ${seconds(curve.ttft_s[draft_len])} in the place of ${seconds(curve.ttft_s[0])}: throughput is bought with waiting.`,
      );
    else if (curve.choice.decision === "unclear" && drafter.kind !== "ideal") parts.push("It could go either way: measure before you rely on it.");
    if (drafter.law === "accept" && drafter.kind !== "ngram" && PRICED.includes(drafter.kind))
      parts.push("One rate is taken at every depth; later drafts of published drafters are accepted less often.");
    if (movedTo(drafter) !== undefined) {
      const deepest = profileOf(drafter).tokens.filter((one) => one !== null).length - 1;
      const moved = sampled(drafter);
      const [before, after] = [{ ...moved, temperature: undefined }, moved].map((one) => specroof.tokensPerRound(one, tables)[deepest].toFixed(2));
      parts.push(`Acceptance was measured at temperature ${profileOf(drafter).temperature} and is moved to ${movedTo(drafter)}: ${before} tokens per round of ${drafts(deepest)} become ${after}.`);
    }
    const flag = raised(setup, curve);
    if (flag) parts.push(`It takes ${flag}: by default this server runs ${curve.raised_from[draft_len]} requests with drafts.`);
    if (curve.worth_measuring)
      parts.push(
        `Worth measuring: ${drafts(curve.worth_measuring)} may reach ${times(curve.speedup[curve.worth_measuring])}${within(curve, curve.worth_measuring)}, beyond the ${drafts(drafter.depth)} measured.`,
      );
    if (drafter.kind !== "ideal") parts.push(byBatch(setup.figures.batches[d], curve));
    return parts.join(" ");
  }

  /** Why a round gains what it does: what it adds to a plain step, the largest parts first, as `explain` has it. */
  function why({ cell }, curve, length) {
    if (!length || !Number.isFinite(curve.decoding_round_s[length])) return "";
    const [i, j] = at(),
      round_s = curve.decoding_round_s[length],
      tokens = curve.tokens_per_round[length];
    const parts = specroof.largestParts(specroof.addedParts(curve, cell, i, j, length));
    const prompts = promptShare(cell, curve);
    return `Why: ${tokens.toFixed(2)} tokens come out of a round of ${seconds(round_s)}, or ${(round_s / curve.verify_s[0]).toFixed(2)} plain steps. ${
      parts.length ? `Most of what it adds: ${parts.map(([name, part_s]) => `${name.replace(", ", " ")} +${seconds(Number(part_s.toPrecision(2)))}`).join(", ")}.` : "It adds nothing to a plain step."
    }${prompts > 0.05 ? ` Prompts take ${Math.round(100 * prompts)} % of the time without drafts, and gain nothing.` : ""}`;
  }

  /** The share of a request without drafts that its prompt takes, in closed form. */
  function promptShare(cell, curve) {
    const load = loadOf(cell);
    if (!load || !curve.plain_request_s) return 0;
    return 1 - ((state.answer - 1) * curve.verify_s[0]) / curve.plain_request_s;
  }

  /** How near measurements are at this load, and how far predictions were off there: the sentence of the commands. */
  function sure({ cell, section }, { kind, law }) {
    const { batch_size, context_len, texts } = section.sure[cell.sure[kind]];
    const beyond = (end, value) => Number(end !== null && value > end);
    const assumed = law === "usual" && statusOf({ kind, law }).startsWith("assumed") ? tables.assumed : "";
    return `How sure: ${assumed}${texts[2 * beyond(context_len, state.context) + beyond(batch_size, state.batch)]}.`;
  }

  /** Points of plain decoding, or of a drafter at its best lengths, that a server runs. */
  function servedPoints(setup, d) {
    const batches = setup.figures.batches[d ?? setup.figures.batches.findIndex(Boolean)] || [];
    return batches.flatMap((curve, b) => {
      const length = d === null ? 0 : curve.choice.draft_len,
        batch = tables.batch_size[b];
      const user = curve.tokens_per_s_per_user[length];
      if (!Number.isFinite(user) || (d !== null && !hasDrafts(curve))) return [];
      const tokens_per_s = user * batch;
      return [
        {
          batch,
          length,
          user,
          tokens_per_s,
          price: price(setup, tokens_per_s),
          tpot_s: curve.tpot_s[length],
          ttft_s: curve.ttft_s?.[length],
        },
      ];
    });
  }

  /** What the targets leave: of each way to decode the point with the most tokens a second. */
  function targets(setup) {
    if (!setup.cell || (!state.tpot && !(state.ttft && loadOf(setup.cell)))) return [];
    const asked = [
      state.tpot ? `TPOT of ${seconds(state.tpot)}` : "",
      state.ttft && loadOf(setup.cell) ? `TTFT of ${seconds(state.ttft)}` : "",
    ]
      .filter(Boolean)
      .join(" and ");
    const ways = [
      null,
      ...state.drafters.flatMap((drafter, d) => (setup.figures.batches[d] && drafter.kind !== "ideal" ? [d] : [])),
    ];
    const [i] = at();
    const parts = ways.map((d) => {
      // Within targets at the end of its band, or as the band may turn out.
      const [sure, possible] = [1, 0].map((end) =>
        servedPoints(setup, d)
          .filter(({ batch, tpot_s, ttft_s }) => {
            const within = (figure, value, target) =>
              !target || value * bandOf(setup.cell, figure, i, tables.batch_size.indexOf(batch))[end] <= target;
            return within("tpot_s", tpot_s, state.tpot) && (!loadOf(setup.cell) || within("ttft_s", ttft_s, state.ttft));
          })
          .reduce((most, point) => (!most || point.tokens_per_s > most.tokens_per_s ? point : most), null),
      );
      const name = d === null ? "without drafts" : nameOf(state.drafters[d]);
      const doubt = possible && possible.batch !== sure?.batch ? `unclear to ${plural(possible.batch, "request")}` : "";
      const known = sure
        ? `${plural(sure.batch, "request")}, ${digits(sure.tokens_per_s)} tokens/s${Number.isFinite(sure.price) ? `, ${money(sure.price)} a million tokens` : ""}`
        : "";
      return `${name} ${[known, doubt].filter(Boolean).join(", ") || "no load shown"}`;
    });
    return [element("p", `Within a ${asked}: ${parts.join("; ")}.`)];
  }

  // --- the table ----------------------------------------------------------------------------------

  function showFigures() {
    const tables_of = shownSetups().filter(({ cell }) => cell);
    $("figures").replaceChildren(...tables_of.flatMap(figureRows));
    $("figures").parentElement.hidden = $("columns").hidden = !tables_of.length;
    const answering = tables_of.find(({ cell }) => loadOf(cell));
    $("columns").textContent = answering
      ? `Prompts counted: speedup, tokens/s and price are of whole answers. ${aboutFirstTokens(answering)}`
      : "Decoding alone: choose a length under “Answers” to count prompts and see TTFT.";
    const d = inFocus(),
      answers = shownSetups().map((setup) => (setup.cell ? verdict(setup, d) : noSetup(setup)));
    $("verdict").replaceChildren(
      ...shownSetups().map((setup, s) => {
        const box = element("div"),
          title = element("h2", titleOf(setup));
        if (!s) title.id = "case";
        box.append(title, element("p", loadWords(setup), "hint"), answers[s][0]);
        return box;
      }),
    );
    $("reasons").replaceChildren(
      ...shownSetups().flatMap((setup, s) => [
        ...(shownSetups().length > 1 ? [element("h3", titleOf(setup))] : []),
        ...answers[s].slice(1),
        ...targets(setup),
        ...(setup.note ? [element("p", setup.note, "hint")] : []),
        ...(loadOf(setup.cell) ? [element("p", computedHow(setup), "hint")] : []),
      ]),
    );
  }

  /** The load in one line. */
  const loadWords = ({ cell }) =>
    (cell ? loadOf(cell) : hasPrompt())
      ? `${plural(state.batch, "request")} in flight, ${plural(promptLen(), "token")} in${state.hits ? ` (${Math.round(100 * state.hits)} % cached)` : ""}, ${state.answer.toLocaleString("en")} out`
      : `${plural(state.batch, "request")} in flight, ${plural(state.context, "token")} of context each, decoding alone`;

  /** One line a quantity, and one column a drafter: head and body of a set-up. */
  function figureRows(setup) {
    const { figures, cell } = setup;
    const drafted = state.drafters.map((drafter, d) => {
      const curve = figures.curves[d];
      return curve && hasDrafts(curve) && !refused(setup, drafter) ? curve : null;
    });
    const plain = figures.curves.find((curve) => curve && Number.isFinite(curve.speedup[0]));
    const columns = [[plain, 0], ...drafted.map((curve) => [curve, curve ? curve.choice.draft_len : 0])];
    const of = (read) => columns.map(([curve, length]) => (curve ? read(curve, length) : "–"));
    const ofDrafts = (read) => ["–", ...drafted.map((curve, d) => (curve ? read(curve, state.drafters[d]) : "–"))];
    const batch_s = (curve, length) => curve.tokens_per_s_per_user[length] * state.batch;
    const requests = loadOf(cell),
      ttft = isUseful(...firstTokenBand(setup)) ? millis : () => "?",
      tpot = isPlayed(setup) || isUseful(...bandOf(cell, "tpot_s", ...at())) ? millis : () => "?";
    const lines = [
      ["Decision", ofDrafts((curve, { kind }) => (kind === "ideal" ? "bound" : curve.choice.decision))],
      ["Speedup", of((curve, length) => times(curve.speedup[length])), "speedup"],
      ["Band of 80 %", ofDrafts(({ choice, speedup_low, speedup_high }) => (speedup_low ? rangeOf(speedup_low[choice.tried], speedup_high[choice.tried]) : "–"))],
      ["Drafts", ofDrafts(({ choice }) => (choice.draft_len ? String(choice.draft_len) : "none"))],
      ["Best within 1 %", ofDrafts(({ near_best }) => range(near_best))],
      ["Tokens per round", of((curve, length) => digits(curve.tokens_per_round[length]))],
      ["Tokens/s for each user", of((curve, length) => digits(curve.tokens_per_s_per_user[length], 4))],
      ["Tokens/s of all", of((curve, length) => digits(batch_s(curve, length), 4))],
      ["$ per million tokens", of((curve, length) => money(price(setup, batch_s(curve, length))))],
      ...(requests
        ? [
            ["TTFT (ms)", of((curve, length) => ttft(curve.ttft_s[length]))],
            ["TPOT (ms)", of((curve, length) => tpot(curve.tpot_s[length]))],
          ]
        : []),
      ["Drafting (ms)", of((curve, length) => (length ? millis(curve.draft_s[length]) : "–"))],
      ["Verification (ms)", of((curve, length) => millis(curve.verify_s[length]))],
      ["Round (ms)", of((curve, length) => millis(curve.decoding_round_s[length]))],
    ];
    const cells = (tag, texts, scope) =>
      texts.map((text) => {
        const made = element(tag, text);
        if (scope) made.scope = scope;
        return made;
      });
    const head = element("thead"),
      body = element("tbody"),
      titles = element("tr");
    titles.append(...cells("th", [shownSetups().length > 1 ? titleOf(setup) : "At its best length", "no drafts", ...state.drafters.map(nameOf)], "col"));
    head.append(titles);
    for (const [name, texts, className] of lines) {
      const line = element("tr", undefined, className);
      line.append(...cells("th", [name], "row"), ...cells("td", texts));
      body.append(line);
    }
    return [head, body];
  }

  /** Both ends of a band, or that it is too wide. */
  const rangeOf = (low, high) => (!isUseful(low, high) ? "not useful" : `${low.toFixed(2)}–${times(high)}`);

  /** The band of a TTFT: seconds where requests are simulated, else times the prediction; equal ends where none is known. */
  function firstTokenBand({ cell, figures }) {
    const played = figures.curves[inFocus()]?.played;
    if (played) return played.ttft_ends;
    return bandOf(cell, "ttft_s", ...at());
  }

  /** The band of a figure of requests in closed form, as times the prediction; equal ends where none is known. */
  function bandOf({ widths }, figure, i, j) {
    const [width] = widths[figure] ? specroof.row(widths[figure], i, j) : [0];
    return [Math.exp(-width), Math.exp(width)];
  }

  /** When a TTFT begins, and how far it may be off. */
  function aboutFirstTokens(setup) {
    const [low, high] = firstTokenBand(setup),
      played = setup.figures.curves[inFocus()]?.played;
    const begins = `TTFT begins when a request ${played ? "is sent" : "starts to run"}`;
    if (!isUseful(low, high)) return `${begins}; ?: ${NOT_USEFUL}.`;
    if (low === high) return `${begins}.`;
    return played
      ? `${begins}; 80 % of measured loads like this: ${seconds(low)} to ${seconds(high)}.`
      : `${begins}; 80 % of measured loads have a TTFT between ${low.toFixed(2)} and ${digits(high)} times the prediction.`;
  }

  /** Whether the figures of a set-up are of simulated requests. */
  const isPlayed = ({ figures }) => figures.curves.some((curve) => curve?.played);

  /** How the figures of requests were computed, and which are simulated. */
  function computedHow(setup) {
    const { cell } = setup;
    const each = tables.requests_per_client;
    if (isPlayed(setup))
      return `Simulated one by one: ${plural(each * state.batch, "request")}, ${each} of each client.`;
    if (cell.played && state.model2) return "Closed form of the steady state: the set-up beside it is not simulated.";
    const other = setup.section.cells.find((one) => one.engine === cell.engine && one.played);
    const names = tables.presets.map(({ name }) => name).join(", ");
    return `Closed form of the steady state${other ? `. Simulated are ${names} with ${runs(tables.clients)} requests on ${plural(other.devices, "device")}, drafted by ${other.played.drafters.map((kind) => KINDS[kind]).join(" or ")} as the page begins, within the server's limits and without targets` : ""}.`;
  }

  function noSetup(setup) {
    const line = element("p", undefined, "decision");
    line.append(element("strong", "No room"));
    return [line, element("p", `${setup.refusal}.`)];
  }

  // --- charts -------------------------------------------------------------------------------------

  const SOFT = "var(--soft)",
    DASHES = ["", "7 4"];

  /** Draw a chart, or why there is none: an empty one says nothing. */
  function draw(id, chart, says, missing) {
    const box = $(id);
    if (!box.clientHeight) return; // folded
    box.setAttribute("aria-label", missing || says);
    box.dataset.empty = missing ? "1" : "0";
    if (missing) box.replaceChildren(element("p", missing, "missing"));
    else specroofCharts.draw(box, chart);
  }

  /** Whether lines of the set-up beside are among those of a chart: it may have no figures. */
  const anyDashed = (lines) => lines.some(({ dash }) => dash);

  /** Swatches and names of drafters under a title; dashed lines are the set-up beside. */
  function legend(id, lines, more = []) {
    const entries = state.drafters.flatMap((drafter, d) =>
      setups.some(({ figures }) => figures?.curves[d]) ? [[nameOf(drafter), COLORS[d], SHAPES[d], ""]] : [],
    );
    if (anyDashed(lines))
      entries.push([`solid: ${titleOf(setups[0])}; dashed: ${titleOf(setups[1])}`, SOFT, "", "dashed"]);
    $(id).replaceChildren(
      ...[...entries, ...more].map(([text, color, shape, className]) => {
        const entry = element("span"),
          swatch = element("span", undefined, `swatch ${className}`);
        if (className) swatch.style.color = color;
        else Object.assign(swatch.style, { background: color, clipPath: shape });
        swatch.setAttribute("aria-hidden", "true");
        entry.append(swatch, text);
        return entry;
      }),
    );
  }

  /** Why nothing of any set-up is drawn: the first reason. */
  const noneDrawn = () =>
    shownSetups()
      .flatMap((setup) => state.drafters.map((drafter, d) => absence(setup, drafter, setup.figures.curves[d])))
      .find(Boolean) || "";

  const bestWords = () =>
    state.drafters
      .map((drafter, d) => {
        const curve = setups[0].figures.curves[d];
        return curve && hasDrafts(curve)
          ? `${nameOf(drafter)}: ${times(curve.speedup[curve.choice.tried])} at ${drafts(curve.choice.tried)}`
          : `${nameOf(drafter)}: no figures`;
      })
      .join("; ");

  const advised = ({ choice, speedup }) =>
    choice.draft_len
      ? drafts(choice.draft_len)
      : `off; ${drafts(choice.tried)} would give ${times(speedup[choice.tried])}`;

  function drawByLength() {
    const lines = [];
    let deepest = 0,
      banded = false;
    shownSetups().forEach(({ figures }, s) =>
      state.drafters.forEach((drafter, d) => {
        const curve = figures.curves[d];
        if (!curve || !hasDrafts(curve)) return;
        const lengths = curve.speedup.flatMap((speedup, length) => (Number.isFinite(speedup) ? [length] : []));
        deepest = Math.max(deepest, lengths.at(-1));
        const ends =
          curve.speedup_low && d === inFocus() && s === 0 && drafter.kind !== "ideal"
            ? {
                low: lengths.map((length) => curve.speedup_low[length]),
                high: lengths.map((length) => curve.speedup_high[length]),
              }
            : {};
        banded ||= Boolean(ends.low);
        lines.push({
          x: lengths,
          y: lengths.map((length) => curve.speedup[length]),
          tips: lengths.map((length) => `${drafts(length)}: ${times(curve.speedup[length])}`),
          color: COLORS[d],
          dash: DASHES[s],
          ...ends,
        });
        lines.push({
          x: [curve.choice.draft_len],
          y: [curve.speedup[curve.choice.draft_len]],
          tips: [`advised: ${advised(curve)}`],
          color: COLORS[d],
          mark: MARKS[d],
          bare: true,
        });
      }),
    );
    legend("by-length-legend", lines, banded ? [["80 % of measurements", `${COLORS[inFocus()]}60`, "none", ""]] : []);
    const ticks = Array.from({ length: deepest + 1 }, (_, length) => length).filter(
      (length) => length % (deepest > 8 ? 2 : 1) === 0,
    );
    draw(
      "by-length",
      {
        x: { title: "drafts per round", range: [-0.3, deepest + 0.3], ticks },
        y: { title: "speedup (×)" },
        lines,
        across: [{ y: 1 }],
      },
      `Speedup by drafts per round, one line for each drafter; ${bestWords()}`,
      lines.length ? "" : noneDrawn(),
    );
  }

  /** The draft length that stands for a load in the hero chart: the one that was chosen for the drafter in focus. */
  const heroLength = (curve, d) => (d === inFocus() ? (state.length ?? curve.choice.tried) : curve.choice.tried);

  function drawByBatch() {
    const lines = [],
      focus = inFocus(),
      published = publishedNear(setups[0], state.drafters[focus]);
    let banded = false;
    shownSetups().forEach((setup, s) =>
      state.drafters.forEach((drafter, d) => {
        if (!setup.figures.batches[d] || refused(setup, drafter)) return;
        const points = setup.figures.batches[d].flatMap((curve, b) => {
          const length = heroLength(curve, d);
          return Number.isFinite(curve.speedup[length]) && hasDrafts(curve) ? [{ curve, length, batch: tables.batch_size[b] }] : [];
        });
        if (!points.length) return;
        const bandOf = (ends) => points.map(({ curve, length }) => curve[ends][length]);
        const withBand = d === focus && s === 0 && drafter.kind !== "ideal" && points[0].curve.speedup_low;
        banded ||= Boolean(withBand);
        lines.push({
          x: points.map(({ batch }) => batch),
          y: points.map(({ curve, length }) => curve.speedup[length]),
          color: COLORS[d],
          dash: DASHES[s],
          mark: MARKS[d],
          tips: points.map(
            ({ curve, length, batch }) =>
              `${plural(batch, "request")}: ${times(curve.speedup[length])}${within(curve, length)} with ${drafts(length)}, decision ${curve.choice.decision}`,
          ),
          ...(withBand ? { low: bandOf("speedup_low"), high: bandOf("speedup_high") } : {}),
        });
      }),
    );
    const batches = tables.batch_size.filter((batch) => lines.some(({ x }) => x.includes(batch)));
    const range = [batches[0] / 1.2, batches.at(-1) * 1.2];
    const dots = published.filter(({ x }) => x >= range[0] && x <= range[1]);
    const count = (hollow) => dots.filter((dot) => dot.hollow === hollow).length;
    legend("hero-legend", lines, [
      ...(banded ? [["80 % of measurements", `${COLORS[focus]}60`, "none", ""]] : []),
      ...(count(false) ? [[`published, this model: ${count(false)}`, "", "", "dot"]] : []),
      ...(count(true) ? [[`published, models of this size: ${count(true)}`, "", "", "hollow"]] : []),
      ...(dots.length || setups[0].cell?.engine === "ideal" ? [] : [["no published measurement is near", "transparent", "none", ""]]),
    ]);
    const title = heroTitle(focus);
    $("hero-title").textContent = title;
    draw(
      "by-batch",
      {
        x: { title: "requests in flight", type: "log", range, ticks: batches },
        y: { title: "speedup (×)" },
        lines,
        dots,
        across: [{ y: 1 }, ...(batches.includes(state.batch) ? [{ x: state.batch }] : [])],
      },
      `${title}; one line for each drafter, ${plural(dots.length, "published measurement")} as dots; no point where the server has no room for drafts`,
      lines.length ? "" : noneDrawn() || "no figure at this draft length",
    );
  }

  /** What the chart says, in its title. */
  function heroTitle(focus) {
    const drafter = state.drafters[focus],
      batches = setups[0].figures.batches[focus];
    if (!batches || refused(setups[0], drafter)) return "Speedup by load";
    if (state.length !== null) return `Speedup by load: ${drafts(state.length)} of ${KINDS[drafter.kind]}`;
    const on = tables.batch_size.filter((_, b) => hasDrafts(batches[b]) && batches[b].choice.decision === "on");
    const where = !on.length ? "at no load shown for sure" : on.length === tables.batch_size.length ? "at every load shown" : `at ${runs(on)} requests in flight`;
    return `Speedup by load: ${KINDS[drafter.kind]} ${drafter.kind === "ideal" ? "is an upper bound" : `pays ${where}`}`;
  }

  /** Published speedups near what is shown: the same kind of drafter, family of chips and server, this model or one
   * of its size, and about its acceptance and context. */
  function publishedNear({ words, cell }, drafter) {
    if (!cell) return [];
    const [total, active] = tables.params[tables.models.indexOf(words.model)],
      tokens = specroof.tokensPerRound(sampled(drafter), tables);
    const differs = (one, other, factor) => Math.max(one / other, other / one) > factor;
    return tables.published
      .filter(
        (row) => row.kind === drafter.kind && row.architecture === chipOf(words.chip).architecture && row.framework === cell.framework,
      )
      .flatMap((row) => {
        const same = row.n_params === total && row.n_active_params === active;
        const mixture = row.n_active_params < row.n_params;
        if (!same && (mixture !== active < total || differs(row.n_active_params / row.devices, active / cell.devices, NEAR.size))) return [];
        return row.points.flatMap(([batch, context, read, speedup]) => {
          const own = tokens[row.draft_len];
          if (read === null ? !same : !Number.isFinite(own) || differs(read, own, NEAR.tokens)) return [];
          if (context && differs(context, state.context, NEAR.context)) return [];
          return [
            {
              x: batch,
              y: speedup,
              hollow: !same,
              tip: `published: ${times(speedup)}, ${short(row.model)} on ${row.devices} × ${row.chip}, ${plural(batch, "request")}, ${drafts(row.draft_len)}${read ? `, ${read} tokens per round` : ""} (${row.source})`,
            },
          ];
        });
      });
  }

  function drawByAcceptance() {
    const focus = state.drafters[inFocus()],
      byLength = focus.law === "accept-length",
      lines = [];
    const x = (drafter) => (byLength ? drafter.length : drafter.accept),
      best = (curve) => curve.speedup[curve.choice.tried];
    shownSetups().forEach(({ figures }, s) => {
      const points = (figures.acceptance || []).filter(hasDrafts);
      if (!points.length) return;
      lines.push({
        x: points.map(({ drafter }) => x(drafter)),
        y: points.map(best),
        color: COLORS[inFocus()],
        dash: DASHES[s],
        tips: points.map(
          (one) =>
            `${byLength ? `${x(one.drafter).toFixed(1)} tokens` : `${Math.round(x(one.drafter) * 100)} %`}: ${times(best(one))}, ${advised(one)}`,
        ),
      });
      const curve = figures.curves[inFocus()];
      if (x(focus) !== undefined)
        lines.push({
          x: [x(focus)],
          y: [best(curve)],
          tips: [`here: ${times(best(curve))}`],
          color: COLORS[inFocus()],
          mark: MARKS[inFocus()],
          bare: true,
        });
    });
    const missing =
      focus.kind === "ideal"
        ? "the ideal drafter accepts every draft: choose another drafter above"
        : lines.length
          ? ""
          : noneDrawn() || "in closed form, which has no requests that wait, the server has no room for this batch";
    $("by-acceptance-legend").replaceChildren(
      element(
        "span",
        `${nameOf(focus)}, at its best draft length${anyDashed(lines) ? `; dashed: ${titleOf(setups[1])}` : ""}`,
      ),
    );
    draw(
      "by-acceptance",
      {
        x: {
          title: byLength ? `tokens per round with ${drafts(focus.depth)}` : "acceptance rate of each draft",
        },
        y: { title: "best speedup (×)" },
        lines,
        across: [{ y: 1 }],
      },
      `Best speedup of ${nameOf(focus)} by acceptance`,
      missing,
    );
  }

  function drawPrice() {
    const lines = [],
      names = ["no drafts", ...state.drafters.map(nameOf)];
    const priced = shownSetups().every(({ words }) => chipOf(words.chip).usd_per_hour !== null);
    shownSetups().forEach((setup, s) =>
      [null, ...state.drafters.keys()].forEach((d) => {
        if (!setup.cell || (d !== null && (!setup.figures.batches[d] || state.drafters[d].kind === "ideal"))) return;
        const points = servedPoints(setup, d);
        if (!points.length) return;
        lines.push({
          x: points.map((one) => one.user),
          y: points.map((one) => (priced ? one.price : one.tokens_per_s / setup.cell.devices)),
          color: d === null ? SOFT : COLORS[d],
          dash: DASHES[s],
          mark: MARKS[d ?? 0],
          tips: points.map(
            (one) =>
              `${names[d === null ? 0 : d + 1]}, ${plural(one.batch, "request")}${one.length ? `, ${drafts(one.length)}` : ""}: ${digits(one.user)} tok/s, ${priced ? money(one.price) : `${digits(one.tokens_per_s / setup.cell.devices)} tok/s of each device`}`,
          ),
        });
      }),
    );
    $("price-title").textContent = priced
      ? "Price by speed, one point a load"
      : "Throughput by speed, one point a load (no price of this chip is known)";
    legend("price-legend", lines, [["no drafts", SOFT, SHAPES[0], ""]]);
    draw(
      "price",
      {
        x: { title: "tokens/s for each user", type: "log" },
        y: { title: priced ? "$ per million output tokens" : "tokens/s of each device", type: "log" },
        lines,
        across: state.tpot ? [{ x: 1 / state.tpot }] : [],
      },
      `${priced ? "Dollars of a million tokens" : "Tokens a second of each device"} against tokens a second for each user, a point for each load`,
      lines.length ? "" : noneDrawn(),
    );
  }

  const chosenLength = () => state.length ?? setups[0].figures.curves[inFocus()]?.choice.draft_len ?? 0;

  function drawRound() {
    const curve = setups[0].figures.curves[inFocus()],
      length = chosenLength(),
      focus = state.drafters[inFocus()];
    const missing =
      absence(setups[0], focus, curve) ||
      (Number.isFinite(curve.decoding_round_s[length])
        ? ""
        : state.batch > curve.most[length]
          ? `the server runs ${curve.most[length]} of ${plural(state.batch, "request")} at a time, and the others wait`
          : `${KINDS[focus.kind]} makes no ${drafts(length)}, or its acceptance is not known there`);
    if (missing) {
      $("say-round").textContent =
        `A round drafts a few tokens and verifies them in one pass of the model. None can be shown here: ${missing}.`;
      draw("round", {}, "", missing);
      return;
    }
    const tokens = curve.tokens_per_round[length],
      plain_s = curve.verify_s[0];
    const total_s = curve.decoding_round_s[length];
    $("say-round").textContent = length
      ? `A round drafts ${plural(length, "token")} (${seconds(curve.draft_s[length])}), and verifies them in one pass of the model (${seconds(curve.verify_s[length])}), which reads the weights once for all ${length + 1} positions. It keeps the drafts that the model agrees with and adds a token of its own: ${tokens.toFixed(2)} tokens on average. With what the engine adds (${seconds(curve.engine_s)}) that takes ${seconds(total_s)}. Plain steps take ${seconds(tokens * plain_s)} for as many tokens.`
      : `Without drafts, a round is a plain step of ${seconds(plain_s)} for one token. With drafts, a round verifies several tokens in one pass of the model and keeps those that it agrees with.`;
    const added = length ? specroof.addedParts(curve, setups[0].cell, ...at(), length) : [];
    const largest = specroof.largestParts(added, 0.95).slice(0, MOST_PARTS);
    const shown_s = largest.reduce((sum, [, part_s]) => sum + part_s, plain_s);
    const steps = [["plain step", plain_s], ...largest];
    if (Math.abs(total_s - shown_s) > 0.005 * total_s) steps.push(["other parts", total_s - shown_s]);
    let from = 0;
    const bars = steps.map(([name, part_s], n) => {
      const made = { name, from, to: from + part_s, part_s, color: n ? COLORS[inFocus()] : SOFT };
      from += part_s;
      return made;
    });
    if (length) bars.push({ name: "= round", from: 0, to: total_s, part_s: total_s, color: "var(--accent)" });
    bars.push({ name: `${tokens.toFixed(2)} plain steps`, from: 0, to: tokens * plain_s, part_s: tokens * plain_s, color: SOFT });
    const label = (value_s) => digits(value_s * 1e3);
    draw(
      "round",
      {
        x: { title: "time (ms)", range: [0, Math.max(total_s, plain_s * tokens) * 1.25e3] },
        y: { names: bars.map(({ name }) => name).reverse() },
        bars: bars.map(({ name, from: low_s, to: high_s, part_s, color }) => ({
          name,
          from: low_s * 1e3,
          to: high_s * 1e3,
          color,
          text: label(part_s),
          tip: `${name}: ${label(part_s)} ms`,
        })),
      },
      `A round with ${drafts(length)} in ms: ${bars.map(({ name, part_s }) => `${name} ${label(part_s)}`).join(", ")}`,
    );
  }

  function drawMap() {
    const rows = setups[0].figures.map,
      focus = state.drafters[inFocus()];
    $("map-title").textContent =
      `Drafts per round of ${KINDS[focus.kind]}, by requests in flight and context (–: no room)${state.model2 ? `, on ${titleOf(setups[0])}` : ""}`;
    const known = (rows || []).map((line) => line.map(hasDrafts));
    const widest = Math.max(-1, ...known.map((line) => line.lastIndexOf(true)));
    const missing = !rows ? absence(setups[0], focus, null) : widest < 0 ? "no context shown has room for a draft" : "";
    if (missing) {
      draw("map", {}, "", missing);
      return;
    }
    const contexts = tables.context_len.filter((_, c) => known[c].includes(true)),
      batches = tables.batch_size.slice(0, widest + 1);
    const cells = contexts.flatMap((context) =>
      batches.map((batch, b) => {
        const curve = rows[tables.context_len.indexOf(context)][b],
          runs = hasDrafts(curve),
          length = curve.choice.draft_len;
        return {
          x: String(batch),
          y: String(context),
          share: runs ? length / tables.max_draft_len : 0,
          text: !runs ? "–" : length ? String(length) : "off",
          tip: `${plural(batch, "request")}, context ${context}: ${runs ? `${advised(curve)}${length ? `, ${times(curve.speedup[length])}` : ""}` : "no room"}`,
        };
      }),
    );
    draw(
      "map",
      {
        x: { names: batches.map(String), title: "requests in flight" },
        y: { names: contexts.map(String), title: "context (tokens)" },
        cells,
      },
      `Drafts of ${nameOf(focus)} by requests in flight and context; no figure where the server has no room for drafts`,
    );
  }

  /** Why the gain changes with the batch as the chart beside it shows; empty where nothing is drawn. */
  function gainByBatch(batches) {
    const points = (batches || []).flatMap((curve, b) =>
      hasDrafts(curve) ? [{ batch: tables.batch_size[b], gain: curve.speedup[curve.choice.tried] }] : [],
    );
    if (points.length < 2) return "";
    if (points.every(({ gain }, n) => n === 0 || gain <= points[n - 1].gain * 1.01))
      return "The more requests, the more of a pass is arithmetic, and the less a round gains.";
    const by = [...points].sort((one, other) => one.gain - other.gain),
      say = ({ batch, gain }) => `${times(gain)} with ${plural(batch, "request")}`;
    const [total, active] = tables.params[tables.models.indexOf(state.model)];
    const reason = active < total
      ? "The few tokens of a small batch read few experts, so that a verification reads experts that a plain step leaves out; a large batch reads almost all of them anyway"
      : "What a round costs besides the reading of weights is shared by more requests";
    return `Here the least gain is ${say(by[0])}, the most ${say(by.at(-1))}. ${reason}. Where arithmetic takes over, a round gains less again.`;
  }

  /** Why the gain changes with the load. */
  function tellBatch() {
    const { cell, figures } = setups[0],
      [i] = at(),
      length = Math.max(chosenLength(), 1),
      last = tables.batch_size.length - 1;
    const share = (b) => specroof.verifyShare(cell, i, b, length);
    $("forms").hidden = !shownSetups().some(({ cell: one }) => one?.played && loadOf(one));
    $("say-batch").textContent =
      `A plain step reads every weight once for all requests, so a few more positions are almost free while that reading takes the time. ${
        cell
          ? `Here a pass over ${plural(length + 1, "position")} of each request takes ${times(share(0))} a plain step with ${plural(tables.batch_size[0], "request")}, and ${times(share(last))} with ${plural(tables.batch_size[last], "request")}. `
          : ""
      }${gainByBatch(figures.batches[inFocus()])}`;
  }

  /** From which acceptance on the drafter in focus pays. */
  function tellAcceptance() {
    const { figures } = setups[0],
      focus = state.drafters[inFocus()];
    const points = (figures.acceptance || []).filter(hasDrafts);
    const least = points.find(({ choice }) => choice.decision === "on");
    const value = (point) =>
      focus.law === "accept-length"
        ? `${point.drafter.length.toFixed(1)} tokens per round with ${drafts(focus.depth)}`
        : `an acceptance rate of ${Math.round(point.drafter.accept * 100)} %`;
    $("say-acceptance").textContent =
      `A round costs the same whatever is accepted: acceptance alone decides what it is worth. ${
        points.length
          ? least
            ? `At this load ${KINDS[focus.kind]} pays from ${value(least)} on${least.speedup_low ? ", its band counted" : ""}.`
            : `At this load no acceptance makes ${KINDS[focus.kind]} pay for sure.`
          : ""
      } A faster answer is also a cheaper one, if the same devices serve it: see the chart of prices.`;
  }

  // --- to take away -------------------------------------------------------------------------------

  const OPTION_FLAGS = {
    granularity: "--granularity",
    experts: "--experts",
    count: "--count",
    recurrent_state: "--recurrent-state",
    state_dtype: "--state-dtype",
    kv_dtype: "--kv-cache",
    weight_dtype: "--weights",
    v4_attention: "--v4-attention",
    cost_of: "--cost-of",
    n_cpu_moe: "--n-cpu-moe",
  };
  const optionFlags = () =>
    Object.entries(tables.options).flatMap(([name, value]) =>
      name === "strict_dtype" ? ["--strict-dtype"] : [OPTION_FLAGS[name], value],
    );
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`);

  const promptLen = () => state.context - state.answer / 2;

  /** The flags of the server that is shown; empty where nothing is to be pasted. */
  const ownFlags = () => document.querySelector("#flags pre")?.textContent ?? "";

  /** A command about the model, chip, devices and engine that are shown. */
  const commandLine = (name, words) =>
    ["specroof", name, state.model, "-H", state.chip, "--tp", state.devices, "--engine", state.engine, ...words]
      .map((word) => quoted(String(word)))
      .join(" ");
  const temperatureFlag = () => (movedByFlag() ? ["--temperature", state.temperature] : []);
  const requestFlags = () => [
    ...["--input-len", promptLen(), "--output-len", state.answer],
    ...["--prefix-hit-rate", state.hits, ...(isPlayed(setups[0]) ? [] : ["--steady"])],
  ];

  function command() {
    return commandLine("predict", [
      ...(state.length ? ["--show-draft-len", state.length] : []),
      ...(loadOf(setups[0].cell) ? requestFlags() : ["--context", state.context]),
      ...[isPlayed(setups[0]) ? "--concurrency" : "--batch", state.batch],
      ...state.drafters.flatMap((one) => ["--drafter", sampledSpec(one)]),
      ...temperatureFlag(),
      ...optionFlags(),
      ...(state.limited ? [] : ["--no-capacity"]),
      ...(served() ? ["--server", served()] : []),
    ]);
  }

  /** What the server is told in the place of a default, for the drafters that are shown. */
  const served = () =>
    state.limited && !isPlayed(setups[0]) && setups[0].figures.curves.some((curve) => raised(setups[0], curve)) ? `running=${state.batch}` : "";

  /** The question whose answer is the decision of the drafter in focus; none without prompts. */
  function question() {
    if (!loadOf(setups[0].cell) || !state.limited || tables.options.cost_of) return "";
    const inMilliseconds = (flag, target_s) => (target_s ? [flag, Number((target_s * 1e3).toFixed(3))] : []);
    return commandLine("advise", [
      ...(state.length ? ["--choose-draft-len", state.length] : []),
      ...requestFlags(),
      ...["--concurrency", state.batch],
      ...["--drafter", sampledSpec(state.drafters[inFocus()])],
      ...temperatureFlag(),
      ...inMilliseconds("--tpot", state.tpot),
      ...inMilliseconds("--ttft", state.ttft),
      ...optionFlags(),
    ]);
  }

  function python() {
    const text = JSON.stringify;
    const value = (one) => (one === true ? "True" : text(one));
    const options = Object.entries(tables.options).map(([name, one]) => `${text(name)}: ${value(one)}`);
    const [load, steady] = isPlayed(setups[0]) ? ["concurrency", ""] : ["batch_size", ", steady=True"];
    const lines = [
      `${text(state.model)}, ${text(state.chip)},`,
      `drafters=[${state.drafters.map((one) => text(sampledSpec(one))).join(", ")}],`,
      `${load}=${state.batch}, ${loadOf(setups[0].cell) ? `input_len=${promptLen()}, output_len=${state.answer}, prefix_hit_rate=${state.hits}${steady}` : `context_len=${state.context}`}, tensor_parallel=${state.devices}, engine=${text(state.engine)},`,
    ];
    if (movedByFlag()) lines.push(`temperature=${state.temperature},`);
    if (options.length) lines.push(`options={${options.join(", ")}},`);
    if (!state.limited) lines.push("capacity=False,");
    if (state.length) lines.push(`draft_len=${state.length},`);
    if (served()) lines.push(`server=${text(served())},`);
    return `import specroof\n\nspecroof.predict(\n${lines.map((line) => `    ${line}`).join("\n")}\n)`;
  }

  function showFlags() {
    const drafter = state.drafters[inFocus()],
      parts = [];
    const known = flagsOf(drafter, state.model),
      curve = setups[0].figures.curves[inFocus()];
    const missing = absence(setups[0], drafter, curve),
      length = state.length ?? curve?.choice.draft_len;
    if (missing) parts.push(element("p", `Nothing to paste: ${missing}.`));
    else if (!known)
      parts.push(element("p", `A drafter given by its cost alone has no flags. Those of ${PRICED.map((kind) => KINDS[kind]).join(", ")} have.`));
    else if (!length) parts.push(element("p", `The decision is off: no flags of ${KINDS[drafter.kind]}.`));
    else {
      const own = setups[0].cell.framework,
        flag = raised(setups[0], curve);
      for (const name of Object.keys(known).sort((one, two) => (two === own) - (one === own))) {
        if (typeof known[name] === "string") {
          parts.push(element("p", `${engineWords(name)}: ${known[name]}`));
          continue;
        }
        const block = element("pre", `${known[name][length - 1]}${flag && name === own ? ` ${flag}` : ""}`);
        block.tabIndex = 0;
        parts.push(element("p", `${engineWords(name)}, ${drafts(length)} of ${KINDS[drafter.kind]}:`), block);
      }
    }
    $("flags").replaceChildren(...parts);
    $("steady").hidden = !loadOf(setups[0].cell) || isPlayed(setups[0]);
    for (const [id, text] of [
      ["question", question],
      ["command", command],
      ["python", python],
    ]) {
      $(id).textContent = setups[0].cell ? text() : "";
      $(id).parentElement.hidden = !$(id).textContent;
    }
    $("copy-paste").hidden = !ownFlags();
    $("copy-command").hidden = !$("command").textContent;
  }

  /** What each button copies, and where it stands for those that copy by hand. */
  const COPIES = {
    link: () => [location.href, null],
    paste: () => [ownFlags(), document.querySelector("#flags pre")],
    command: () => [$("command").textContent, $("command")],
    question: () => [$("question").textContent, $("question")],
    python: () => [$("python").textContent, $("python")],
  };

  async function copy(id) {
    const [text, place] = COPIES[id]();
    try {
      await navigator.clipboard.writeText(text);
      $("copied").textContent = "Copied.";
    } catch {
      if (place) {
        place.closest("details").open = true;
        getSelection().selectAllChildren(place);
      }
      $("copied").textContent = place ? "Selected; copy it with the keyboard." : "Copy it from the address bar.";
    }
  }

  // --- controls -----------------------------------------------------------------------------------

  function fill(select, options, chosen) {
    select.replaceChildren(
      ...options.map(([value, text, disabled]) => {
        const option = element("option", text);
        option.value = value;
        option.disabled = Boolean(disabled);
        option.selected = String(value) === String(chosen);
        return option;
      }),
    );
  }

  function showSetup({ suffix, words, section: { cells, refusals }, cell }) {
    fill(
      $(`model${suffix}`),
      (suffix ? tables.models : [...new Set([...foundModels(), words.model])]).map((model) => [model, model]),
      words.model,
    );
    fill(
      $(`chip${suffix}`),
      tables.hardware.map(({ word, name }) => [word, name]),
      words.chip,
    );
    const engine = cell?.engine ?? "",
      devices = cell?.devices ?? 0;
    const fits = (count) =>
      cells.some((other) => other.devices === count && (engine === "ideal" || other.engine !== "ideal"));
    fill(
      $(`devices${suffix}`),
      [
        ...(devices ? [] : [[0, "none fit", true]]),
        ...tables.devices.map((count) => [
          count,
          fits(count) ? String(count) : `${count} (${refusals[count] ? "no room" : "roofline only"})`,
          !fits(count),
        ]),
      ],
      devices,
    );
    fill(
      $(`engine${suffix}`),
      [
        ...(engine ? [] : [["", "none", true]]),
        ...[...new Set(cells.map((other) => other.engine))].map((name) => [
          name,
          `${engineWords(name)}${name === "ideal" || cells.find((other) => other.engine === name).fitted ? "" : " (generic)"}`,
        ]),
      ],
      engine,
    );
  }

  /** The models whose names hold every word that was typed. */
  function foundModels() {
    const words = $("find").value.toLowerCase().split(/[\s/]+/).filter(Boolean);
    return tables.models.filter((model) => words.every((word) => model.toLowerCase().includes(word)));
  }

  function showFound() {
    const models = foundModels();
    $("found").textContent = $("find").value ? `(${models.length} of ${tables.models.length} found)` : "";
    $("none-found").hidden = models.length > 0;
    fill($("model"), (models.length ? models : [state.model]).map((model) => [model, model]), state.model);
    if (models.length && !models.includes(state.model)) $("model").selectedIndex = 0;
  }

  function showControls() {
    $("find-box").hidden = tables.models.length < 2;
    shownSetups().forEach(showSetup);
    $("other").hidden = !state.model2;
    $("compare").hidden = Boolean(state.model2);
    $("context").max = tables.context_len.length - 1;
    $("batch").max = tables.batch_size.length - 1;
    const off = [[0, "decoding alone"]],
      any = [[0, "any"]];
    fill(
      $("answer-len"),
      [...off, ...answers.map((answer) => [answer, `${answer.toLocaleString("en")} tokens`])],
      state.answer,
    );
    fill(
      $("hits"),
      hitRates.map((rate) => [rate, `${Math.round(rate * 100)} %`]),
      state.hits,
    );
    fill($("tpot"), [...any, ...TPOTS.slice(1).map((limit) => [limit, seconds(limit)])], state.tpot);
    fill($("temperature"), [["", "as measured"], ...tables.temperatures.map((one) => [one, String(one)])], state.temperature ?? "");
    fill($("ttft"), [...any, ...TTFTS.slice(1).map((limit) => [limit, seconds(limit)])], state.ttft);
    $("limited").checked = state.limited;
    $("presets").hidden = !tables.presets.length;
    $("presets").replaceChildren(...tables.presets.map(presetButton));
    $("add").hidden = state.drafters.length >= MOST_DRAFTERS;
    const boxes = [...$("drafters").children];
    while (boxes.length > state.drafters.length) boxes.pop().remove();
    state.drafters.forEach((drafter, d) => showDrafter(drafter, d, boxes[d] || drafterBox(d)));
    fill($("focus"), [["", "the best here"], ...state.drafters.map((drafter, d) => [d, nameOf(drafter)])], state.focus ?? "");
    $("length").min = 0;
    $("length").max = tables.max_draft_len;
  }

  /** A button that sets the requests of a preset. */
  function presetButton({ name, context_len, output_len, prefix_hit_rate }) {
    const button = element("button", name);
    button.type = "button";
    const cached = prefix_hit_rate ? ` (${Math.round(prefix_hit_rate * 100)} % cached)` : "";
    button.append(
      element("small", `${(context_len - output_len / 2).toLocaleString("en")} in${cached}, ${output_len.toLocaleString("en")} out`),
    );
    on(button, "click", redraw, () =>
      Object.assign(state, { context: context_len, answer: output_len, hits: prefix_hit_rate }),
    );
    return button;
  }

  function showValues() {
    const preset = presetAt(state.context);
    [...$("presets").children].forEach((button, place) => button.setAttribute("aria-pressed", String(place === preset)));
    $("answer-len").value = String(state.answer);
    $("hits").value = String(state.hits);
    $("context").value = tables.context_len.indexOf(state.context);
    $("batch").value = tables.batch_size.indexOf(state.batch);
    $("context-value").textContent = plural(state.context, "token");
    $("batch-value").textContent = String(state.batch);
    $("context").setAttribute("aria-valuetext", $("context-value").textContent);
    $("batch").setAttribute("aria-valuetext", plural(state.batch, "request"));
    $("hits").disabled = $("ttft").disabled = !state.answer;
    const unmoved = state.drafters.filter((one) => one.kind !== "ideal" && statedTemperature(one) === null);
    $("unmoved").textContent =
      state.temperature === null || !unmoved.length
        ? ""
        : `No temperature is stated for the acceptance of ${[...new Set(unmoved.map(({ kind }) => KINDS[kind]))].join(" and ")}: it stays as it is.`;
    $("unmoved").hidden = !$("unmoved").textContent;
    $("prompt").textContent = !state.answer
      ? "Decoding alone; choose an answer length to count prompts."
      : setups[0].cell && setups[0].cell.engine !== "ideal" && !loadOf(setups[0].cell) && hasPrompt()
        ? "This page has no figures of such prompts: decoding alone. Those of the buttons are counted."
        : hasPrompt()
        ? `A prompt of ${plural(promptLen(), "token")} and half an answer make this context.`
        : `A context of ${state.context} is shorter than half an answer of ${state.answer}: prompts are not counted.`;
    const length = chosenLength();
    $("length").value = length;
    $("length-value").textContent = state.length === null ? `${length} (best)` : String(length);
    $("best").hidden = state.length === null;
    state.drafters.forEach((drafter, d) => {
      const box = $("drafters").children[d];
      box.querySelector(".status").textContent = statusOf(drafter);
      const say = (name, text) => {
        box.querySelector(`.${name}-box output`).textContent = text;
        box.querySelector(`.${name}-box input`).setAttribute("aria-valuetext", text);
      };
      if (drafter.law === "accept") say("accept", `${Math.round(drafter.accept * 100)} %`);
      if (drafter.law === "accept-length") {
        say("length", drafter.length.toFixed(1));
        say("depth", String(drafter.depth));
      }
      if (drafter.cost !== undefined) say("cost", `${Number((drafter.cost * 100).toFixed(1))} %`);
      if (drafter.kind === "block") say("drafts", String(drafter.drafts));
    });
    [...$("focus").options].slice(1).forEach((option, d) => {
      option.textContent = nameOf(state.drafters[d]);
    });
  }

  /** Let a control change the state, and show what follows. */
  const on = (control, event, show, change) =>
    control.addEventListener(event, () => {
      refuse([]);
      change(control);
      return show();
    });

  function drafterBox(d) {
    const box = $("drafter-template").content.firstElementChild.cloneNode(true);
    const the = (name) => box.querySelector(`.${name}`);
    const drafter = () => state.drafters[d];
    // A label names the first control in it, which is the output.
    for (const slider of box.querySelectorAll("input"))
      slider.setAttribute("aria-label", slider.parentElement.firstChild.textContent.trim().replace(":", ""));
    on(the("kind"), "change", refresh, ({ value }) => {
      state.drafters[d] = newDrafter(value, drafter());
      if (state.focus === d) state.length = null;
    });
    on(the("law"), "change", refresh, ({ value }) => withLaw(drafter(), value));
    on(the("profile"), "change", redraw, ({ value }) => {
      drafter().profile = value;
    });
    on(the("accept"), "input", redraw, ({ value }) => {
      drafter().accept = Number(value) / 100;
    });
    on(the("cost"), "input", redraw, ({ value }) => {
      drafter().cost = Number((Number(value) * 0.005).toFixed(3));
    });
    on(the("drafts"), "input", redraw, ({ value }) => {
      drafter().drafts = Number(value);
    });
    on(the("stated"), "input", redraw, ({ value }) => {
      drafter().length = lengthOf(value);
    });
    on(the("depth"), "input", redraw, ({ value }) => {
      drafter().depth = tables.length_depths[Number(value)];
      drafter().length = Math.min(drafter().length, drafter().depth + 1);
      showLength(drafter(), the("stated"));
    });
    on(the("remove"), "click", refresh, () => {
      state.drafters.splice(d, 1);
      state.focus = null;
      state.length = null;
    });
    $("drafters").append(box);
    return box;
  }

  function showLength(drafter, slider) {
    slider.max = drafter.depth * tables.length_steps;
    slider.value = Math.round((drafter.length - 1) * tables.length_steps);
  }

  const lengthOf = (steps) => Number((1 + Number(steps) / tables.length_steps).toFixed(3));

  function newDrafter(kind, before) {
    const drafter = { kind };
    if (kind === "ideal") return drafter;
    if (PRICED.includes(kind)) withLaw(drafter, "usual");
    else withLaw(drafter, before.law && !specroof.isPublished(before) ? before.law : "accept", before);
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
      const { kind } = drafter;
      drafter.profile = PRICED.includes(kind) ? profileOf({ kind, law: "usual" }).name : profilesFor(kind)[0].name;
    }
  }

  /** Profiles to choose from: of the kind; of a drafter by cost, which may be of any, all. */
  function profilesFor(kind) {
    return PRICED.includes(kind) ? tables.profiles.filter((profile) => profile.kind === kind) : tables.profiles;
  }

  function showDrafter(drafter, d, box) {
    const the = (name) => box.querySelector(`.${name}`);
    the("number").textContent = `Drafter ${d + 1}`;
    the("swatch").style.background = COLORS[d];
    the("swatch").style.clipPath = SHAPES[d];
    the("status").textContent = statusOf(drafter);
    const { cell } = setups[0],
      here = (kind) => !cell || offered(cell, kind);
    fill(
      the("kind"),
      Object.entries(CHOICES).map(([kind, text]) => {
        const why = cell && refused(setups[0], { kind });
        return [kind, here(kind) && !why ? text : `${text} (${why ? `not on ${engineWords(cell.engine)}` : "not here"})`, !here(kind) || Boolean(why)];
      }),
      drafter.kind,
    );
    the("says").textContent = aboutAcceptance(drafter);
    the("says").hidden = !the("says").textContent;
    fill(
      the("law"),
      Object.entries(LAWS).map(([law, text]) => [law, text, law === "usual" && !PRICED.includes(drafter.kind)]),
      drafter.law,
    );
    const shows = {
      law: drafter.kind !== "ideal",
      accept: drafter.law === "accept",
      length: drafter.law === "accept-length",
      depth: drafter.law === "accept-length",
      profile: drafter.law === "profile",
      cost: drafter.cost !== undefined,
      drafts: drafter.kind === "block",
    };
    for (const [name, visible] of Object.entries(shows)) the(`${name}-box`).hidden = !visible;
    if (shows.accept) the("accept").value = Math.round(drafter.accept * 100);
    if (shows.cost) the("cost").value = Math.round(drafter.cost / 0.005);
    if (shows.drafts) the("drafts").value = drafter.drafts;
    if (shows.length) {
      showLength(drafter, the("stated"));
      the("depth").max = tables.length_depths.length - 1;
      the("depth").value = tables.length_depths.indexOf(drafter.depth);
    }
    if (shows.profile) showProfiles(drafter, the("profile"));
    the("remove").hidden = state.drafters.length === 1;
    the("remove").setAttribute("aria-label", `Remove drafter ${d + 1}`);
  }

  /** Profiles of this model, then those of other models. */
  function showProfiles(drafter, select) {
    const own = PRICED.includes(drafter.kind) ? ownProfiles(drafter.kind) : [];
    const others = profilesFor(drafter.kind).filter((profile) => !own.includes(profile));
    select.replaceChildren(
      ...[
        [`of ${short(state.model)}`, own],
        ["of other models", others],
      ]
        .filter(([, profiles]) => profiles.length)
        .map(([label, profiles]) => {
          const group = element("optgroup");
          group.label = label;
          fill(group, profiles.map(({ name }) => [name, name]), drafter.profile);
          return group;
        }),
    );
  }

  // --- the loop -----------------------------------------------------------------------------------

  /** Choose the grid of a set-up: devices that hold the model, and an engine that was fitted to it or is generic. */
  function choose(setup) {
    const {
      words,
      section: { cells, refusals, default_engine },
    } = setup;
    const name = `${short(words.model)} on ${chipName(words.chip)}`;
    Object.assign(setup, { cell: null, note: "", refusal: "" });
    const known = [...new Set(cells.map((cell) => cell.engine))];
    if (words.engine && !known.includes(words.engine)) {
      refuse([`engine is ${shown(words.engine)}; allowed here: ${known.join(", ")}`], true);
      words.engine = "";
    }
    // The textbook is no server: it is chosen only by name.
    const real = known.find((engine) => engine !== "ideal");
    const engine = words.engine || (known.includes(default_engine) ? default_engine : real);
    const grids = cells.filter((cell) => cell.engine === engine);
    if (!grids.length) {
      const [count, why] = Object.entries(refusals).at(-1) || [tables.devices.at(-1), "no engine of this page runs it"];
      setup.refusal = `${name}, ${plural(Number(count), "device")}: ${why}${known.length ? ". Choose another chip, or the roofline, which has no memory" : ""}`;
      return;
    }
    // Devices are chosen that run the batch with a draft of each drafter; else those that run the most of it.
    const kinds = state.drafters.length ? state.drafters.map(({ kind }) => kind) : begunKinds(words.model);
    const room = (cell) => Math.min(state.batch, ...kinds.map((kind) => mostDrafted(cell, kind, ...at())));
    setup.cell =
      grids.find((cell) => cell.devices === words.devices) ||
      grids.reduce((most, cell) => (room(cell) > room(most) ? cell : most));
    if (words.devices && words.devices !== setup.cell.devices) {
      setup.note = `${plural(words.devices, "device")} cannot serve it (${refusals[words.devices] || `${engineWords(engine)} has no figures there`}); ${setup.cell.devices} chosen.`;
    }
    if (!words.engine && engine !== default_engine)
      setup.note += ` ${engineWords(default_engine)} has no figures here; ${engineWords(engine)} chosen.`;
    if (engine === "ideal")
      setup.note += " The textbook roofline: no overheads, no band of measurements; servers reach less.";
    else if (!setup.cell.fitted) setup.note += ` No measurements of ${engineWords(engine)} on this chip are in its profile: kernels are generic.`;
  }

  let turn = 0;

  /** Load what the state asks for, then show everything. */
  async function refresh() {
    const mine = ++turn;
    try {
      const wanted = shownSetups();
      for (const setup of wanted) {
        const words = Object.fromEntries(
          ["model", "chip", "devices", "engine"].map((key) => [key, state[`${key}${setup.suffix}`]]),
        );
        const grids = await section(words.model, words.chip);
        if (mine !== turn) return;
        Object.assign(setup, { words, section: grids });
        choose(setup);
        state[`devices${setup.suffix}`] = setup.cell?.devices ?? 0;
        state[`engine${setup.suffix}`] = setup.cell?.engine ?? "";
      }
      if (!state.drafters.length) state.drafters = usualDrafters();
      showControls();
      showScenes();
      redraw();
    } catch (refusal) {
      if (mine === turn) refuse([refusal.message]);
    }
  }

  /** Show the figures of the state again. */
  function redraw() {
    for (const setup of shownSetups()) setup.figures = computed(setup);
    showValues();
    showFigures();
    showFlags();
    document.title = `${titleOf(setups[0])}: what speculative decoding gains`;
    drawByBatch();
    drawFolded();
    try {
      history.replaceState(null, "", address());
    } catch {
      /* a frame without an address of its own */
    }
    document.documentElement.dataset.turn = String(Number(document.documentElement.dataset.turn || 0) + 1);
  }

  /** Charts and texts of the parts that are open. */
  function drawFolded() {
    const isOpen = (id) => $(id).closest("details").open;
    if (isOpen("round")) {
      drawRound();
      drawByLength();
    }
    if (isOpen("map")) {
      tellBatch();
      drawMap();
    }
    if (isOpen("price")) {
      tellAcceptance();
      drawByAcceptance();
      drawPrice();
    }
  }

  /** Examples to begin with, as links; the one that is shown is marked. */
  function showScenes() {
    const isShown = ({ address: words }) => {
      const [scene] = readAddress(words);
      return ["model", "chip", "answer"].every((key) => scene[key] === state[key]) && (!scene.engine || scene.engine === state.engine);
    };
    $("scenes").replaceChildren(
      ...tables.scenes.map((scene) => {
        const link = element("a", scene.name);
        link.href = `#${scene.address}`;
        if (isShown(scene)) link.setAttribute("aria-current", "true");
        return link;
      }),
    );
  }

  function refuse(lines, more = false) {
    const box = $("refusals");
    box.textContent = more && !box.hidden ? `${box.textContent}\n${lines.join("\n")}` : lines.join("\n");
    box.hidden = !lines.length;
  }

  function fromAddress() {
    const [found, wrong] = readAddress(location.hash || (tables.scenes[0]?.address ?? ""));
    state = found;
    refuse(wrong);
    return refresh();
  }

  /** Take the drafters that the page begins with. */
  const beginAnew = () => Object.assign(state, { drafters: [], focus: null, length: null });

  function listen() {
    for (const { suffix } of setups) {
      const control = (key) => $(`${key}${suffix}`);
      // Another model or chip: devices and server are chosen anew; another model has other drafters.
      for (const key of ["model", "chip"])
        on(control(key), "change", refresh, ({ value }) => {
          Object.assign(state, { [`${key}${suffix}`]: value, [`devices${suffix}`]: 0, [`engine${suffix}`]: "" });
          if (key === "model" && !suffix) beginAnew();
        });
      on(control("devices"), "change", refresh, ({ value }) => {
        state[`devices${suffix}`] = Number(value);
      });
      on(control("engine"), "change", refresh, ({ value }) => {
        const { cells } = setups[suffix ? 1 : 0].section;
        const isThere = cells.some((cell) => cell.engine === value && cell.devices === state[`devices${suffix}`]);
        if (!isThere) state[`devices${suffix}`] = 0;
        state[`engine${suffix}`] = value;
      });
    }
    $("find").addEventListener("input", showFound);
    on($("find"), "change", refresh, () => {
      const [first] = foundModels();
      if (!first || foundModels().includes(state.model)) return;
      Object.assign(state, { model: first, devices: 0, engine: "" });
      beginAnew();
    });
    for (const part of document.querySelectorAll("#story details")) part.addEventListener("toggle", () => setups[0].figures && drawFolded());
    on($("compare"), "click", refresh, () => {
      const next = chips[(chips.indexOf(state.chip) + 1) % chips.length];
      Object.assign(state, { model2: state.model, chip2: next, devices2: 0, engine2: "" });
    });
    on($("alone"), "click", refresh, () => Object.assign(state, ALONE));
    on($("context"), "input", redraw, ({ value }) => {
      state.context = tables.context_len[Number(value)];
    });
    on($("batch"), "input", redraw, ({ value }) => {
      state.batch = tables.batch_size[Number(value)];
    });
    for (const [id, key] of [
      ["answer-len", "answer"],
      ["hits", "hits"],
      ["tpot", "tpot"],
      ["ttft", "ttft"],
    ])
      on($(id), "change", refresh, ({ value }) => {
        state[key] = Number(value);
      });
    on($("temperature"), "change", refresh, ({ value }) => {
      state.temperature = value === "" ? null : Number(value);
    });
    on($("limited"), "change", redraw, ({ checked }) => {
      state.limited = checked;
    });
    on($("focus"), "change", redraw, ({ value }) => {
      state.focus = value === "" ? null : Number(value);
      state.length = null;
    });
    on($("length"), "input", redraw, ({ value }) => {
      state.length = Number(value);
    });
    on($("best"), "click", redraw, () => {
      state.length = null;
    });
    on($("add"), "click", refresh, () => {
      state.drafters.push(newDrafter("autoregressive", {}));
    });
    $("controls").addEventListener("submit", (event) => event.preventDefault());
    for (const id of Object.keys(COPIES)) $(`copy-${id}`).addEventListener("click", () => copy(id));
    addEventListener("hashchange", () => {
      if (location.hash !== address()) fromAddress();
    });
    let width = innerWidth;
    addEventListener("resize", () => {
      if (setups[0].figures && innerWidth !== width) {
        width = innerWidth;
        redraw();
      }
    });
  }

  async function start() {
    const { things, flags, profiles, usual } = await specroof.unpacked(tables.packed);
    Object.assign(tables, { typical: things[0], flags, profiles, usual });
    PRICED = Object.keys(usual.of_models);
    listen();
    await fromAddress();
  }

  start().catch((failure) => refuse([failure.message]));
  return {
    receive,
    figures: () => ({ state, ...setups[0].figures, beside: state.model2 ? setups[1].figures : null }),
  };
})();
