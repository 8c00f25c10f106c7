// The right side: one stream or topic, its facts, messages, producers and snapshots.

import { request, urlOf } from "./api.js";
import { $, el, say, update } from "./dom.js";
import { Log } from "./log.js";
import { body } from "./messages.js";
import { sourceOf } from "./sources.js";
import { ago, decoded, hex, moment, number, offset, oneLine, size } from "./text.js";

const REFRESH_MS = 2000;
const SNAPSHOT_BYTES = 16 * 1024;
const TABS = ["messages", "producers", "snapshots"];
const TIMES = new Set(["Created", "Last write"]);
const STATES = { live: "Live", connecting: "Connecting", paused: "Paused", ended: "Closed", gone: "Gone" };

export class Detail {
  #log = new Log();
  #source = null;
  #detail = null;
  #producers = [];
  #floor = 0;
  #at = null;
  #stop = null;
  #asleep = false;
  #left = null;
  #failed;

  constructor(failed) {
    this.#failed = failed;
    for (const tab of TABS) $(`tab-${tab}`).addEventListener("click", () => this.#tab(tab));
    $("live").addEventListener("click", () => (this.#stop === null ? this.#restart() : this.#pause()));
    $("older").addEventListener("click", () => this.#older());
    $("producers-more").addEventListener("click", () => this.#moreProducers());
    $("copy").addEventListener("click", async () => {
      await navigator.clipboard.writeText(urlOf(this.#source.path));
      $("copy").textContent = "Copied";
      setTimeout(() => ($("copy").textContent = "Copy URL"), 1500);
    });
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#append();
    });
    $("body").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("composer").requestSubmit();
    });
    // A browser has few connections to a server: tabs that nobody sees leave them to others.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#sleep() : this.#wake()));
    setInterval(() => {
      if (!document.hidden && !$("app").hidden && this.#detail !== null) this.#refresh();
    }, REFRESH_MS);
  }

  hide() {
    this.#leave();
    this.#clear();
    $("something").hidden = true;
    $("nothing").hidden = false;
  }

  #clear() {
    $("name").replaceChildren();
    $("facts").replaceChildren();
    $("snapshot").replaceChildren();
    $("status").hidden = true;
    $("body").value = "";
    say($("detail-error"), "");
    say($("sent"), "");
    this.#log.clear();
    this.#drawProducers([], 0);
    this.#drawSnapshots([]);
  }

  async show(path) {
    this.#leave();
    this.#clear();
    const left = (this.#left = new AbortController());
    const source = (this.#source = sourceOf(path));
    $("nothing").hidden = true;
    $("something").hidden = false;
    const [, root, name] = /^(\/v1\/stream\/|\/v0\/topics\/|\/ds\/[^/]+\/)(.*)$/.exec(path);
    $("name").replaceChildren(el("span", { class: "dim" }, oneLine(root)), el("bdi", {}, oneLine(decoded(name))));
    this.#tab("messages");
    for (const tab of ["producers", "snapshots"]) $(`tab-${tab}`).hidden = !source.producers;
    try {
      const detail = await source.detail();
      if (left.signal.aborted) return;
      this.#take(detail);
      await this.#restart();
    } catch (error) {
      if (!left.signal.aborted) this.#fail(error);
    }
  }

  #leave() {
    this.#left?.abort();
    this.#pause();
    this.#asleep = false;
    this.#at = null;
    this.#detail = null;
    this.#producers = [];
    $("composer").hidden = true;
  }

  // Reads what lies before the tail, then follows from there; from `at`, if little came since.
  async #restart(at = null) {
    const stop = (this.#stop = new AbortController());
    const signal = AbortSignal.any([this.#left.signal, stop.signal]);
    this.#state("connecting");
    try {
      const source = this.#source;
      const detail = await source.detail();
      if (signal.aborted) return;
      this.#take(detail);
      const bounds = source.bounds(detail);
      if (at === null || bounds.end - at > source.backlog) {
        this.#at = null;
        const { messages, start } = await source.before(bounds.end, bounds, detail, signal);
        if (signal.aborted) return;
        this.#log.clear(messages);
        this.#mark(start, messages);
        this.#at = bounds.end;
      }
      await source.follow(this.#at, detail, {
        signal,
        batch: (fresh, next) => {
          this.#log.add(fresh);
          this.#at = next;
        },
        state: (name) => signal.aborted || this.#state(name),
      });
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  #sleep() {
    if (this.#stop === null) return;
    this.#pause();
    this.#asleep = true;
  }

  #wake() {
    if (!this.#asleep) return;
    this.#asleep = false;
    this.#restart(this.#at);
  }

  #mark(start, messages) {
    this.#floor = start;
    const first = this.#source.bounds(this.#detail).first;
    const shown = messages.length > 0 ? this.#log.first : start;
    $("older").hidden = shown <= first;
  }

  #pause() {
    this.#stop?.abort();
    this.#stop = null;
    this.#state("paused");
  }

  async #older() {
    this.#pause();
    const signal = this.#left.signal;
    const bounds = this.#source.bounds(this.#detail);
    try {
      const { messages, start } = await this.#source.before(this.#log.first ?? this.#floor, bounds, this.#detail, signal);
      if (signal.aborted) return;
      this.#log.prepend(messages);
      this.#mark(start, messages);
    } catch (error) {
      if (!signal.aborted) say($("detail-error"), error.message);
    }
  }

  async #refresh() {
    const { signal } = this.#left;
    try {
      const detail = await this.#source.detail();
      if (signal.aborted) return;
      this.#take(detail);
      // Whoever writes is faster than the page can show: it goes on at the end.
      const behind = this.#at === null ? 0 : this.#source.bounds(detail).end - this.#at;
      if (this.#stop !== null && behind > this.#source.backlog) {
        this.#pause();
        this.#restart();
      }
    } catch (error) {
      if (signal.aborted) return;
      // The tail has its own patience with a server that is busy or away.
      if (error.status === 404 || error.status === 410) this.#fail(error);
      else this.#failed(error);
    }
  }

  async #append() {
    const { signal } = this.#left;
    const text = $("body").value;
    if (text === "") return;
    try {
      const said = await this.#source.append(text, this.#detail);
      if (signal.aborted) return;
      $("body").value = "";
      $("sent").className = "small dim";
      say($("sent"), said);
      this.#log.toEnd();
      await this.#refresh();
    } catch (error) {
      if (signal.aborted) return;
      $("sent").className = "small error";
      say($("sent"), error.message);
    }
  }

  #take(detail) {
    const known = this.#detail;
    this.#detail = detail;
    if (known === null) $("body").placeholder = this.#source.placeholder(detail);
    $("composer").hidden = detail.closed;
    $("status").hidden = !this.#source.producers;
    $("status").textContent = detail.closed ? "closed" : "open";
    $("status").dataset.closed = detail.closed;
    this.#drawFacts(detail);
    this.#drawSnapshots(detail.snapshots);
    // Further pages were read by hand and stay; the first one is kept fresh.
    const further = this.#producers.slice(detail.producers.length);
    this.#drawProducers([...detail.producers, ...further], detail.producer_count);
  }

  #drawFacts(detail) {
    const facts = Object.entries(this.#source.facts(detail)).filter(([, value]) => value !== null && value !== undefined);
    update(
      $("facts"),
      facts.map(([name, value]) => {
        const time = TIMES.has(name);
        const text = time ? ago(value) : typeof value === "number" ? number(value) : oneLine(String(value));
        return el("div", {}, el("dt", {}, name), el("dd", { title: time ? moment(value) : text }, text));
      }),
    );
  }

  #drawProducers(producers, count) {
    this.#producers = producers;
    $("tab-producers").lastElementChild.textContent = count > 0 ? number(count) : "";
    $("producers-empty").hidden = count > 0;
    $("producers-more").hidden = producers.length >= count;
    update(
      $("producers"),
      producers.map((each) =>
        el(
          "tr",
          {},
          el("td", { class: "mono long" }, el("bdi", {}, oneLine(each.id))),
          el("td", { class: "mono r", title: epochTitle(each.epoch) }, String(each.epoch)),
          el("td", { class: "mono r" }, String(each.seq)),
          el("td", { class: "r dim", title: moment(each.used_at_ms) }, ago(each.used_at_ms)),
        ),
      ),
    );
  }

  async #moreProducers() {
    const { signal } = this.#left;
    try {
      const page = await this.#source.detail(this.#producers.length);
      if (!signal.aborted) this.#drawProducers([...this.#producers, ...page.producers], page.producer_count);
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  #drawSnapshots(snapshots) {
    $("tab-snapshots").lastElementChild.textContent = snapshots.length > 0 ? number(snapshots.length) : "";
    $("snapshots-empty").hidden = snapshots.length > 0;
    update(
      $("snapshots"),
      snapshots.map((each) => {
        const open = el("button", { class: "link mono", title: "Show its beginning" }, offset(each.offset));
        open.addEventListener("click", () => this.#showSnapshot(each));
        const state = each.superseded_at_ms === null ? "latest" : `superseded ${ago(each.superseded_at_ms)}`;
        return el(
          "tr",
          {},
          el("td", {}, open),
          el("td", { class: "mono long" }, oneLine(each.content_type)),
          el("td", { class: "r" }, size(each.size)),
          el("td", { class: "r dim" }, state),
        );
      }),
    );
    if (snapshots.length === 0) $("snapshot").hidden = true;
  }

  // The beginning of a snapshot: the rest is not downloaded.
  async #showSnapshot({ offset: at, content_type: type }) {
    const { signal } = this.#left;
    try {
      const response = await request(`${this.#source.path}/snapshot/${at}`, { signal });
      const bytes = await beginning(response.body, SNAPSHOT_BYTES);
      const text = new TextDecoder().decode(bytes, { stream: true });
      const kind = /json/i.test(type) ? "json" : "text";
      const shown = text.includes("\ufffd") ? [hex(bytes, 512)] : body(kind, text, 100);
      $("snapshot").replaceChildren(...shown);
      $("snapshot").hidden = false;
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  #tab(chosen) {
    for (const tab of TABS) {
      $(`tab-${tab}`).setAttribute("aria-selected", tab === chosen);
      $(`panel-${tab}`).hidden = tab !== chosen;
    }
    document.querySelector(".message-tools").hidden = chosen !== "messages";
  }

  #state(name) {
    $("live").dataset.state = name;
    $("live").setAttribute("aria-pressed", name !== "paused");
    $("live").lastElementChild.textContent = STATES[name];
    if (name === "live") say($("detail-error"), "");
  }

  #fail(error) {
    this.#stop?.abort();
    this.#stop = null;
    if (error.status === 404 || error.status === 410) {
      this.#detail = null;
      $("composer").hidden = true;
      this.#state("gone");
    }
    say($("detail-error"), error.message);
    if (error.status === undefined) this.#failed(error);
  }
}

// Spark's sink puts the number of the micro-batch and a fingerprint of its rows into the epoch.
function epochTitle(epoch) {
  const batch = Math.floor(epoch / 2 ** 20);
  return epoch % 2 ** 20 === 0 || batch === 0 ? null : `from Spark: micro-batch ${batch}`;
}

async function beginning(stream, limit) {
  const reader = stream.getReader();
  const parts = [];
  let length = 0;
  while (length < limit) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
  }
  reader.cancel().catch(() => {});
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole.subarray(0, limit);
}
