// Where messages come from: a stream (SSE) or a topic (asked again and again). Both can be read
// backwards from a position and followed from it.

import { ask, Refused, request } from "./api.js";
import { elements } from "./json.js";
import { fromArray, fromBase64, fromBytes, message } from "./messages.js";
import { events } from "./sse.js";
import { offset, size } from "./text.js";

const STEP = 64 * 1024;
// A page of fewer messages than this is short; so many bytes are enough for one, though.
const SHORT = 10;
const ENOUGH = 8 * STEP;
const TOPIC_STEP = 100;
const TOPIC_PAUSE_MS = 1000;
const SLOWEST_RETRY_MS = 10_000;

export function sourceOf(path) {
  return path.startsWith("/v0/topics/") ? new Topic(path) : new Stream(path);
}

const pause = (ms, signal) =>
  new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });

// Runs `session` again and again until the signal, an end or a refusal that stays one.
async function keepUp(signal, state, session) {
  let failures = 0;
  while (!signal.aborted) {
    try {
      const ended = await session(() => {
        failures = 0;
        state("live");
      });
      if (ended) return state("ended");
      await pause(200, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status < 500 && error.status !== 429) throw error;
      state("connecting");
      await pause(Math.min(SLOWEST_RETRY_MS, 500 * 2 ** failures), signal);
      failures += 1;
    }
  }
}

class Stream {
  constructor(path) {
    this.path = path;
    this.producers = true;
    // As far as this a tail may be behind; further, reading begins anew at the end.
    this.backlog = 1024 * 1024;
  }

  detail(skip = 0) {
    return ask("/explorer/api/stream", { path: this.path, skip });
  }

  facts(detail) {
    const kept = Number(detail.next_offset) - Number(detail.retained_offset);
    return {
      Size: size(kept),
      "Content type": detail.content_type,
      Earliest: offset(detail.retained_offset),
      Tail: offset(detail.next_offset),
      Appends: detail.appends,
      Readers: detail.readers,
      Created: detail.created_at_ms,
      "Last write": detail.last_write_at_ms,
      "Forked from": detail.forked_from && `${detail.forked_from} at ${offset(detail.fork_offset)}`,
      Forks: detail.forks || null,
      Expires: detail.expires_at ?? (detail.ttl_s === null ? null : `${detail.ttl_s} s after its last use`),
    };
  }

  bounds(detail) {
    return { first: Number(detail.retained_offset), end: Number(detail.next_offset) };
  }

  // Messages that end where `end` is, and where they begin. Large messages take a larger step.
  async before(end, { first }, detail, signal) {
    for (let step = STEP; ; step *= 8) {
      const from = Math.max(first, end - step);
      if (from >= end) return { messages: [], start: end };
      const query = `offset=${from}&align=next&max_bytes=${end - from}`;
      const response = await request(`${this.path}?${query}`, { signal });
      const start = Number(response.headers.get("stream-start-offset"));
      const least = step < ENOUGH ? SHORT : 1;
      const whole = new Uint8Array(await response.arrayBuffer());
      const bytes = whole.subarray(0, Math.max(0, end - start));
      const messages = detail.json
        ? fromArray(new TextDecoder().decode(bytes), start)
        : fromBytes(bytes, start, detail.content_type);
      if (messages.length >= least || from === first) return { messages, start };
    }
  }

  async follow(from, detail, { signal, batch, state }) {
    let at = from;
    await keepUp(signal, state, async (connected) => {
      const response = await request(`${this.path}?offset=${at}&live=sse`, { signal });
      connected();
      if (response.headers.get("stream-incarnation") !== detail.incarnation) {
        throw new Refused(410, "This stream was deleted and created again: choose it anew.");
      }
      const base64 = response.headers.get("stream-sse-data-encoding") === "base64";
      let data = null;
      for await (const event of events(response.body)) {
        if (event.name === "data") data = event.data;
        if (event.name !== "control") continue;
        const control = JSON.parse(event.data);
        const next = Number(control.streamNextOffset);
        if (data !== null) batch(this.#messages(data, at, base64, detail), next);
        data = null;
        at = next;
        // A stream that never stops must not keep the page from drawing and answering.
        await pause(0, signal);
        if (control.streamClosed) return true;
      }
      return false;
    });
  }

  #messages(data, at, base64, detail) {
    if (detail.json) return fromArray(data, at);
    const bytes = base64 ? fromBase64(data) : new TextEncoder().encode(data);
    return fromBytes(bytes, at, detail.content_type);
  }

  async append(text, detail) {
    const response = await request(this.path, {
      method: "POST",
      headers: { "Content-Type": detail.content_type },
      body: text,
    });
    return `Appended; the tail is ${offset(response.headers.get("stream-next-offset"))}`;
  }

  placeholder(detail) {
    return detail.json ? '{"hello": "world"}   (an array is one message per element)' : detail.content_type;
  }
}

class Topic {
  constructor(path) {
    this.path = path;
    this.producers = false;
    this.backlog = 1000;
  }

  async detail() {
    const found = await ask(this.path);
    return { ...found, closed: false, json: true, producers: [], producer_count: 0, snapshots: [] };
  }

  facts(detail) {
    return {
      Records: detail.count,
      Size: size(detail.bytes),
      Earliest: detail.earliest_seq,
      Head: detail.head_seq,
      "Last write": detail.last_write_ts || null,
    };
  }

  bounds(detail) {
    return { first: detail.earliest_seq, end: detail.next_seq };
  }

  async before(end, { first }, _detail, signal) {
    const start = Math.max(first, end - TOPIC_STEP);
    const messages = [];
    for (let at = start; at < end; at = messages.at(-1).offset + 1) {
      const page = await this.#page(at, end - at, signal);
      if (page.length === 0) break;
      messages.push(...page);
    }
    return { messages, start };
  }

  async follow(from, _detail, { signal, batch, state }) {
    let at = from;
    await keepUp(signal, state, async (connected) => {
      const page = await this.#page(at, 1000, signal);
      connected();
      if (page.length > 0) {
        at = page.at(-1).offset + 1;
        batch(page, at);
      }
      await pause(TOPIC_PAUSE_MS, signal);
      return false;
    });
  }

  // Records from a number on, each as the text the server sent: parsing would round its numbers.
  async #page(from, limit, signal) {
    const query = `from_seq=${from - 1}&limit=${limit}`;
    const response = await request(`${this.path}/records?${query}`, { signal });
    const text = await response.text();
    const array = text.slice(text.indexOf('"records":[') + '"records":'.length);
    return elements(array).map(([start, end]) => {
      const record = array.slice(start, end);
      return message("json", record, JSON.parse(record).$seq, record.length);
    });
  }

  async append(text) {
    const response = await request(this.path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: `{"records":[{"data":${text}}]}`,
    });
    return `Written as ${(await response.json()).last_seq}`;
  }

  placeholder() {
    return '{"hello": "world"}';
  }
}
