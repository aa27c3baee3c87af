// What the page makes of the grids that Python timed: tokens per round, rounds, speedups, optima.
// Tested against the library; nothing here knows a model, a chip or the page it runs on.
"use strict";

globalThis.specroof = (() => {
  // Grids are rounded: draft lengths this close are equal, and the shorter one wins.
  const TIE = 3e-7;

  // Base 85, but for letters that a script would have to escape.
  const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=/?@^_`{|}~";
  const DIGITS = new Map([...LETTERS].map((letter, digit) => [letter.charCodeAt(0), digit]));

  /** Five letters stand for four bytes; the last few for one less than they are. */
  function bytesOf(text) {
    const groups = Math.ceil(text.length / 5),
      full = text.padEnd(5 * groups, "~");
    const view = new DataView(new ArrayBuffer(4 * groups));
    for (let group = 0; group < groups; group++) {
      let number = 0;
      for (let i = 5 * group; i < 5 * (group + 1); i++) number = number * 85 + DIGITS.get(full.charCodeAt(i));
      view.setUint32(4 * group, number);
    }
    return new Uint8Array(view.buffer, 0, 4 * groups - (full.length - text.length));
  }

  async function inflated(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** Undo specroof.page.packed: the things, each of their grids as {shape, values}, and what they share. */
  async function unpacked(text) {
    const bytes = bytesOf(text),
      end = 4 + new DataView(bytes.buffer).getUint32(0);
    const { things, stacks, shared } = JSON.parse(new TextDecoder().decode(await inflated(bytes.subarray(4, end))));
    const raw = await inflated(bytes.subarray(end));
    let at = 0,
      zeros = 0; // that follow the last one, which has their count behind it
    const nextByte = () => {
      if (zeros > 0) {
        zeros--;
        return 0;
      }
      const byte = raw[at++];
      if (byte === 0) zeros = raw[at++];
      return byte;
    };
    const grids = stacks.map(({ shape: [count, ...shape], quantum, differences }) => {
      const size = shape.reduce((product, length) => product * length, 1),
        width = size / shape[0]; // of what stands together: a place on the first axis of a grid
      const values = new Float64Array(count * size);
      const places = Array.from(values, (_, i) => {
        const block = Math.floor(i / width);
        return (block % count) * size + Math.floor(block / count) * width + (i % width);
      });
      // Seven bits of each number to a byte, then the next seven of those that have more.
      for (let left = places, scale = 1; left.length; scale *= 128) {
        left = left.filter((i) => {
          const byte = nextByte();
          values[i] += (byte & 127) * scale;
          return byte & 128;
        });
      }
      for (let i = 0; i < values.length; i++) {
        values[i] = values[i] % 2 ? -(values[i] + 1) / 2 : values[i] / 2; // the sign is in the lowest bit
      }
      let step = 1; // from a number to the next along an axis
      const lengths = [count, ...shape];
      for (let axis = lengths.length - 1; axis >= 0; axis--) {
        const around = step * lengths[axis];
        for (let times = differences[axis]; times > 0; times--) {
          for (let i = step; i < values.length; i++) {
            if (i % around >= step) values[i] += values[i - step];
          }
        }
        step = around;
      }
      for (let i = 0; i < values.length; i++) values[i] *= quantum;
      return Array.from({ length: count }, (_, i) => ({
        shape,
        values: values.subarray(i * size, (i + 1) * size),
      }));
    });
    const filled = (value) => {
      if (Array.isArray(value)) return value.map(filled);
      if (value === null || typeof value !== "object") return value;
      return "grid" in value
        ? grids[value.grid].shift()
        : Object.fromEntries(Object.entries(value).map(([name, part]) => [name, filled(part)]));
    };
    let whole = {};
    const filledThings = things.map((own) => {
      whole = { ...whole, ...own }; // what a thing lacks is as in the one before
      return filled(whole);
    });
    return { ...shared, things: filledThings };
  }

  /** The part of a grid at places on its first axes. */
  function row({ shape, values }, ...places) {
    const width = shape.slice(places.length).reduce((product, length) => product * length, 1);
    const start = places.reduce((sum, place, axis) => sum * shape[axis] + place, 0) * width;
    return values.subarray(start, start + width);
  }

  /** The largest batches of a context, by draft length; infinite where there is no end. */
  const ends = (grid, i) => Array.from(row(grid, i), (end) => (end < 0 ? Infinity : end));

  /** The largest batches at a point, by draft length, as the server is and as it is told; with room for what it keeps
   * free of an answer, as specroof.serving.served.reserved_len. Requests hold memory in proportion to their tokens, so
   * that what one takes lies on a line through two contexts. */
  function largest(own, cell, tables, i, j, answer = 0) {
    const most = Math.min(cell.reserved_tokens, answer),
      free = answer ? most - most ** 2 / (2 * answer) : 0;
    const inMemory = (grid, place) => {
      const here = ends(grid, place(i));
      const near = [i + 1, i - 1].find((k) => k >= 0 && k < tables.context_len.length && ends(grid, place(k))[0] > 0);
      if (!free || near === undefined) return here;
      const share = free / (tables.context_len[near] - tables.context_len[i]),
        there = ends(grid, place(near));
      const held = (one, other) => Math.max(Math.floor(1 / ((1 - share) / one + share / other) + 1e-9), 0);
      return here.map((one, length) => (one > 0 && there[length] > 0 ? held(one, there[length]) : one));
    };
    // A limit of running requests is the same at all contexts: it lies on no such line.
    const at = ({ memory, setting }, place, batch) => {
      const allowed = ends(setting, batch);
      return inMemory(memory, place).map((one, length) => Math.min(one, allowed[length]));
    };
    const by_default = at(own.largest, (k) => k, 0);
    return [by_default, own.raised ? at(own.raised, (k) => k * tables.batch_size.length + j, j) : by_default];
  }

  /** Cubics through knots with the slopes of parabolas there: as specroof.questions.explore.hermite. */
  function hermite(knots, values, at) {
    const n = values.length;
    const slope = (i) => {
      const middle = Math.min(Math.max(i, 1), n - 2);
      const left = knots[middle] - knots[middle - 1],
        right = knots[middle + 1] - knots[middle];
      const rise = (values[middle] - values[middle - 1]) / left;
      const bend = ((values[middle + 1] - values[middle]) / right - rise) / (left + right);
      return rise + bend * (2 * knots[i] - knots[middle - 1] - knots[middle]);
    };
    let i = 0;
    while (i < n - 2 && knots[i + 1] <= at) i++;
    const width = knots[i + 1] - knots[i],
      t = (at - knots[i]) / width;
    return (
      values[i] * (1 + 2 * t) * (1 - t) ** 2 +
      slope(i) * width * t * (1 - t) ** 2 +
      values[i + 1] * t * t * (3 - 2 * t) +
      slope(i + 1) * width * t * t * (t - 1)
    );
  }

  /** The typical shape through a stated length, by draft length: lengths of all depths stand behind one another. */
  function typical(drafter, tables, name) {
    const before = tables.length_depths
      .slice(0, tables.length_depths.indexOf(drafter.depth))
      .reduce((sum, depth) => sum + depth * tables.length_steps + 1, 0);
    const shape = tables.typical[drafter.kind] || tables.typical[""];
    return row(shape[name], before + Math.round((drafter.length - 1) * tables.length_steps));
  }

  /** Whether the acceptance is a published one: the usual one of its kind, or a profile by its name. */
  const isPublished = ({ law }) => law === "usual" || law === "profile";

  /** A published acceptance, moved to the temperature that the drafter is sampled at if it says one. */
  function measured(drafter, tables) {
    const isUsual = drafter.law === "usual";
    const profile = isUsual ? tables.usual.rows[drafter.usual] : tables.profiles.find((one) => one.name === drafter.profile);
    if (drafter.temperature === undefined) return profile;
    const at = tables.temperatures.indexOf(drafter.temperature),
      moved = isUsual ? tables.typical.moved_usual : tables.typical.moved;
    const curve = (place) =>
      Array.from(row(moved, profile.moved, at, place), (one, length) =>
        profile.tokens[length] === null ? null : one,
      );
    return { ...profile, tokens: curve(0), below: curve(1), above: curve(2) };
  }

  /** Tokens per round by draft length, bonus token included; NaN past what was measured. */
  function tokensPerRound(drafter, tables) {
    const lengths = Array.from({ length: tables.max_draft_len + 1 }, (_, length) => length);
    if (drafter.kind === "ideal") return lengths.map((length) => length + 1);
    if (isPublished(drafter)) {
      return measured(drafter, tables).tokens.map((one) => (one === null ? NaN : one));
    }
    if (drafter.law === "accept-length") {
      return Array.from(typical(drafter, tables, "tokens"));
    }
    let survival = 1,
      tokens = 1;
    return lengths.map((length) => {
      if (length > 0) {
        survival *= drafter.accept;
        tokens += survival;
      }
      return tokens;
    });
  }

  /** How far tokens per round may lie below or above, as logarithms; 0 where the spread is not known. */
  function tokensSpread(drafter, tables, side, length) {
    if (isPublished(drafter)) return measured(drafter, tables)[side][length];
    if (drafter.law !== "accept-length") return 0;
    return typical(drafter, tables, side)[length];
  }

  /** Speedups of the lengths to choose from: NaN beyond the depth at which acceptance was measured. */
  function choicesOf(drafter, speedup) {
    const depth = drafter.law === "accept-length" ? drafter.depth : Infinity;
    return speedup.map((one, length) => (length > depth ? NaN : one));
  }

  /** The ends of the band around speedups, and the verdict in it; null where there is no band. */
  function banded(drafter, cell, tables, speedup, choices, at) {
    const band = cell.bands[drafter.kind];
    if (band === undefined) return { speedup_low: null, speedup_high: null, verdict: null };
    const beyond = Object.entries(at).map(
      ([axis, value]) => tables.widening[axis] * Math.log(Math.max(value / (band[axis] || Infinity), 1)),
    );
    const width = Math.hypot(band.width, ...beyond);
    const end = (sign, side) =>
      speedup.map((one, length) =>
        length ? one * Math.exp(sign * Math.hypot(width, tokensSpread(drafter, tables, side, length))) : one,
      );
    const low = end(-1, "below"),
      high = end(1, "above");
    const drafted = choices.map((one, length) => (length && !Number.isNaN(one) ? one : -Infinity));
    const best = drafted.indexOf(Math.max(...drafted));
    const known = drafted[best] > -Infinity;
    return {
      speedup_low: low,
      speedup_high: high,
      verdict: !known ? "" : low[best] > 1 ? "pays" : high[best] < 1 ? "loses" : "unclear",
    };
  }

  /** What drafting takes by draft length, in the unit of `verify`. */
  function draftShares(drafter, cell, tables, i, j, tokens, verify) {
    const base = (length) => (tables.cost_of === "verify" ? verify[length] : verify[0]);
    switch (drafter.kind) {
      case "ideal":
        return tokens.map(() => 0);
      case "autoregressive":
        return tokens.map((_, length) => length * drafter.cost * base(length));
      case "block":
        return tokens.map((_, length) => Math.ceil(length / drafter.drafts) * drafter.cost * base(length));
    }
    const grid = cell.drafting[drafter.kind];
    return tokens.map((read, length) => {
      if (length === 0) return 0;
      if (length > grid.depth || Number.isNaN(read)) return NaN;
      if (grid.share !== undefined) return grid.share * verify[length];
      return row(grid.draft, i, j)[length] * verify[0] + hermite(tables.knots, row(grid.more, i, j), read);
    });
  }

  /** One drafter at one point: arrays by draft length, and the optimum. */
  function curve(drafter, cell, tables, i, j, limited, load = null) {
    const batch = tables.batch_size[j],
      scale_s = cell.scale_s[j];
    const verify = row(cell.verify, i, j),
      tokens = tokensPerRound(drafter, tables);
    const drafts = draftShares(drafter, cell, tables, i, j, tokens, verify);
    const own = cell.drafting[drafter.kind] || cell;
    const [each_round_s, each_sequence_s] = own.engine_round_s;
    const engine_s = each_round_s + batch * each_sequence_s;
    const [by_default, most] = largest(own, cell, tables, i, j, load?.answer);
    const fits = tokens.map((_, length) => !limited || batch <= most[length]);
    const known = tokens.map((one, length) => one + drafts[length]);
    const orNone = (values) => values.map((one, length) => (fits[length] && !Number.isNaN(known[length]) ? one : NaN));
    const draft_s = orNone(drafts.map((share) => share * scale_s));
    const verify_s = orNone(Array.from(verify, (share) => share * scale_s));
    const round_s = orNone(
      tokens.map((_, length) => (length ? draft_s[length] + verify_s[length] + engine_s : verify_s[0])),
    );
    // Without prompts, a token takes its share of a round, and the first one is no other than the next.
    const { request_s, first_s } = load ? requestSeconds(drafter, cell, tables, j, load, round_s, tokens) : {};
    const answer = load?.answer;
    const token_s = tokens.map((one, length) => (load ? request_s[length] / answer : round_s[length] / one));
    const speedup = token_s.map((seconds, length) => (length ? token_s[0] / seconds : round_s[0] / round_s[0]));
    const choices = choicesOf(drafter, speedup),
      best = bestIndex(choices),
      longest = bestIndex(speedup);
    return {
      tokens_per_round: tokens,
      draft_s,
      verify_s,
      round_s: token_s.map((seconds, length) => seconds * tokens[length]),
      decoding_round_s: round_s,
      speedup,
      engine_s,
      plain_request_s: load ? request_s[0] : null,
      tokens_per_s_per_user: token_s.map((seconds) => 1 / seconds),
      tpot_s: load ? request_s.map((seconds, length) => (seconds - first_s[length]) / (answer - 1)) : token_s,
      ttft_s: load ? first_s : null,
      best_draft_len: best,
      best_speedup: speedup[best],
      near_best: nearBest(choices),
      choices,
      worth_measuring: longest > best ? longest : 0,
      most,
      bound_by: own.raised ? ["cache", "cache"] : own.bound_by[i] || [],
      raised_from: own.raised && limited ? by_default : null,
      ...banded(drafter, cell, tables, speedup, choices, { batch_size: batch, context_len: tables.context_len[i] }),
    };
  }

  /** Rounds of an answer, whose last is half used: as specroof.serving.closed_loop.answer_rounds. */
  function answerRounds(answer, tokens) {
    return answer > 1 ? Math.max((answer - 1 + (tokens - 1) / 2) / tokens, 1) : 0;
  }

  /** Seconds of a request that runs, and those to its first token, by draft length: linear in a round. */
  function requestSeconds(drafter, cell, tables, j, load, round_s, tokens) {
    // What a drafter takes for a prompt, behind the target: of the others' time, and of its own.
    const reads_s = cell.drafting[drafter.kind]?.read_s.map((row) => row[load.place]) ?? [0, 0];
    const seconds = round_s.map((one, length) => {
      const grid = cell.requests[cell.rules[length ? drafter.kind : ""]];
      const share = length ? (tokens[length] - 1) / length : 0;
      const read = (name) => between(row(grid[name], load.place, j), tables, length, share, tokens[length]);
      const rounds = answerRounds(load.answer, tokens[length]);
      const [others_s, own_s] = length ? reads_s : [0, 0];
      return [
        read("rounds") * rounds * one + read("prompt_s") + (tables.batch_size[j] - 1) * others_s + own_s + cell.latency_s,
        read("first_rounds") * one + read("first_s") + own_s + cell.latency_s,
      ];
    });
    return { request_s: seconds.map((pair) => pair[0]), first_s: seconds.map((pair) => pair[1]) };
  }

  /** A value over tokens per round, or draft lengths and shares accepted, straight between those that are packed. */
  function between(logs, tables, length, share, tokens) {
    const drafts = tables.request_drafts,
      shares = tables.request_shares;
    const place = (values, at) => {
      let k = 0;
      while (k < values.length - 2 && values[k + 1] <= at) k++;
      return [k, (at - values[k]) / (values[k + 1] - values[k])];
    };
    // Logarithms of sizes, with the signs of the values.
    const value = (k) => Math.sign(logs[k]) * Math.exp(Math.abs(logs[k])) * tables.request_least;
    if (logs.length === tables.request_tokens.length) {
      const [n, t] = place(tables.request_tokens, tokens);
      return (1 - t) * value(n) + t * value(n + 1);
    }
    const [d, u] = place(drafts, length),
      [s, v] = place(shares, share);
    const at = (dd, ss) => value(dd * shares.length + ss);
    return (1 - u) * ((1 - v) * at(d, s) + v * at(d, s + 1)) + u * ((1 - v) * at(d + 1, s) + v * at(d + 1, s + 1));
  }

  // A first token that comes so many times later is a price that throughput alone does not tell.
  const MUCH_LATER = 10;

  /** The drafts to make at one load, off being an option: those of `advise`, which
   * specroof.questions.advised_loads and specroof.policies.decision decide. */
  function decided(curve, targets = {}) {
    const { tpot = Infinity, ttft = Infinity } = targets;
    const inTime = curve.choices.map(
      (speedup, length) =>
        Number.isFinite(speedup) && curve.tpot_s[length] <= tpot && (curve.ttft_s?.[length] ?? 0) <= ttft,
    );
    const taken = curve.choices.map((speedup, length) => {
      const refused = !inTime[length] && inTime.includes(true);
      return refused || (length && (curve.speedup_high ?? curve.speedup)[length] < 1) ? speedup * 1e-9 : speedup;
    });
    const draft_len = bestIndex(taken);
    const drafted = curve.choices.map((speedup, length) =>
      length && (inTime[length] || !inTime.slice(1).includes(true)) ? speedup : NaN,
    );
    const known = drafted.some(Number.isFinite),
      tried = draft_len || (known ? bestIndex(drafted) : 0);
    const low = (curve.speedup_low ?? curve.speedup)[tried],
      high = (curve.speedup_high ?? curve.speedup)[tried];
    const verdict = !tried ? "loses" : low > 1 ? "pays" : high < 1 ? "loses" : "unclear";
    const waits = Boolean(draft_len && curve.ttft_s && curve.ttft_s[draft_len] > MUCH_LATER * curve.ttft_s[0]);
    return {
      draft_len,
      tried,
      verdict,
      waits,
      missed: !draft_len && known && inTime[0] && !inTime.slice(1).includes(true),
      decision: !draft_len ? "off" : verdict === "pays" && !waits ? "on" : "unclear",
    };
  }

  /** A curve with what becomes of simulated requests, without drafts and with those that are best: see
   * specroof.questions.page_loads. Other lengths are in closed form, times what simulating changes of the length that
   * was tried. Null where drafts have no room. */
  function played(curve, tables, { choices, figures }, place) {
    const read = (grid) => Array.from({ length: grid.shape[0] }, (_, k) => row(grid, k, ...place)[0]);
    const [draft_len, tried, shortest, longest, decision] = read(choices);
    if (!tried) return null;
    const [speedup, tokens_per_s, tpot_s, ttft_s, ...others] = read(figures).map(Math.exp);
    const [plain_tokens_per_s, plain_tpot_s, plain_ttft_s, low, high, ...ttft_ends] = others;
    const clients = tables.clients[place.at(-1)];
    const verdict = low > 1 ? "pays" : high < 1 ? "loses" : "unclear";
    const put = (values, length, one) => values?.map((other, n) => (n === length ? one : other)) ?? null;
    const both = (values, plain, drafted, change) =>
      put(put(values?.map((one) => one * change) ?? null, 0, plain), draft_len, drafted);
    const users = curve.tokens_per_s_per_user,
      gain = speedup / curve.speedup[tried],
      faster = (speedup * plain_tokens_per_s) / clients / users[tried];
    const gains = (values, one) => put(put(values?.map((other) => other * gain) ?? null, 0, 1), tried, one);
    return {
      ...curve,
      played: { ttft_ends },
      speedup: gains(curve.speedup, speedup),
      speedup_low: gains(curve.speedup_low, low),
      speedup_high: gains(curve.speedup_high, high),
      tokens_per_s_per_user: both(users, plain_tokens_per_s / clients, tokens_per_s / clients, faster),
      tpot_s: both(curve.tpot_s, plain_tpot_s, tpot_s, 1 / faster),
      ttft_s: both(curve.ttft_s, plain_ttft_s, ttft_s, curve.ttft_s && ttft_s / curve.ttft_s[draft_len]),
      near_best: [shortest, longest],
      verdict,
      choice: {
        draft_len,
        tried,
        verdict,
        waits: tables.decisions[decision] === "unclear" && verdict === "pays",
        missed: false,
        decision: tables.decisions[decision],
      },
    };
  }

  /** What a round has beyond a plain step, by part in seconds, as specroof.speedup.waterfall.round_parts. */
  function addedParts(curve, cell, i, j, length) {
    const drafting_s = curve.decoding_round_s[length] - curve.verify_s[length] - curve.engine_s;
    const groups = Object.entries(cell.parts).map(([name, grid]) => {
      const shares = row(grid, i, j);
      return [name, (shares[length] - shares[0]) * cell.scale_s[j]];
    });
    return [["drafting", drafting_s], ...groups, ["engine, per round", curve.engine_s]].filter(([, part_s]) => part_s);
  }

  /** The largest parts that together hold a share of all that is added. */
  function largestParts(parts, share = 0.7) {
    const added = [...parts].sort(([, one], [, other]) => other - one);
    const wanted = share * added.reduce((sum, [, part_s]) => sum + Math.max(part_s, 0), 0);
    let held = 0;
    return added.filter(([, part_s]) => {
      const needed = held < wanted;
      held += part_s;
      return needed;
    });
  }

  /** A verification of so many drafts as a share of a plain step. */
  function verifyShare(cell, i, j, length) {
    const verify = row(cell.verify, i, j);
    return verify[length] / verify[0];
  }

  /** The shortest draft of the largest speedup; 0 where nothing runs. */
  function bestIndex(speedup) {
    const best = Math.max(...speedup.map((one) => (Number.isNaN(one) ? -Infinity : one)));
    const at = speedup.findIndex((one) => one >= best * (1 - TIE));
    return Math.max(at, 0);
  }

  /** The shortest and the longest draft within 1 % of the best. */
  function nearBest(speedup) {
    const least = speedup[bestIndex(speedup)] * (1 - 0.01 - TIE);
    const near = speedup.flatMap((one, length) => (one >= least ? [length] : []));
    return near.length ? [near[0], near.at(-1)] : [0, 0];
  }

  return {
    unpacked,
    row,
    largest,
    hermite,
    isPublished,
    tokensPerRound,
    curve,
    decided,
    played,
    addedParts,
    largestParts,
    verifyShare,
  };
})();
