// The left side: places (buckets, paths, topics) and the streams of one of them.

import { ask } from "./api.js";
import { $, el, say, update } from "./dom.js";
import { ago, decoded, moment, number, oneLine, size } from "./text.js";

const PAGE = 200;
const REFRESH_MS = 4000;
const TYPING_MS = 150;
// A search without a match so far goes on by itself for so many pages.
const PATIENCE = 20;

const encodePath = (name) => name.split("/").map(encodeURIComponent).join("/");

const BASE = { id: "/v1/stream", label: "/v1/stream" };
const TOPICS = { id: "/v0/topics", label: "/v0/topics" };
const bucketPlace = (bucket) => ({ id: `/ds/${bucket}`, label: bucket, bucket });

export function placeOf(path) {
  const bucket = /^\/ds\/([^/]+)/.exec(path);
  if (bucket) return bucketPlace(decoded(bucket[1]));
  return path.startsWith(TOPICS.id) ? TOPICS : BASE;
}

// The path of a stream by name, and of a name typed by a person.
export const streamPath = (place, name) =>
  place.bucket === undefined ? `${place.id}/${encodePath(name)}` : `${place.id}/${encodeURIComponent(name)}`;

async function page(place, contains, after) {
  if (place === TOPICS) {
    const found = await ask("/v0/topics", { prefix: contains, cursor: after, page_size: PAGE });
    return { rows: found.topics.map(topicRow), next: found.next_cursor ?? null };
  }
  const parameters = { bucket: place.bucket, contains, after, limit: PAGE };
  const found = await ask("/explorer/api/streams", parameters);
  return { rows: found.streams.map((stream) => streamRow(place, stream)), next: found.next_cursor };
}

function streamRow(place, stream) {
  return {
    path: streamPath(place, stream.stream_id),
    name: stream.stream_id,
    size: stream.tail_offset - Number(stream.retained_offset),
    kind: stream.content_type,
    closed: stream.status === "Closed",
    snapshot: stream.snapshot_offset !== undefined,
    writtenAt: stream.last_write_at_ms,
  };
}

function topicRow(topic) {
  return {
    path: `/v0/topics/${encodeURIComponent(topic.topic)}`,
    name: topic.topic,
    size: topic.bytes,
    kind: `${number(topic.count)} records`,
    closed: false,
    snapshot: false,
    writtenAt: topic.last_write_ts,
  };
}

function element(row, selected) {
  const name = oneLine(row.name);
  return el(
    "li",
    {},
    el(
      "a",
      { href: `#${row.path}`, title: name, "aria-current": row.path === selected ? "true" : null },
      el("bdi", { class: "name mono" }, name),
      el("span", { class: "size" }, size(row.size)),
      el(
        "span",
        { class: "kind" },
        oneLine(row.kind),
        row.snapshot ? el("span", { class: "tag" }, "snapshot") : null,
        row.closed ? el("span", { class: "tag" }, "closed") : null,
      ),
      el("span", { class: "age", title: row.writtenAt ? moment(row.writtenAt) : null }, row.writtenAt ? ago(row.writtenAt) : ""),
    ),
  );
}

// Search results in order, then the next page. `failed` is told of errors.
export class StreamList {
  #place = BASE;
  #rows = [];
  #next = null;
  #selected = null;
  #run = 0;
  #failed;

  constructor(failed) {
    this.#failed = failed;
    let typing = 0;
    $("search").addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.reload(), TYPING_MS);
    });
    $("list-more").addEventListener("click", () => this.#load(this.#next));
    $("list").addEventListener("keydown", (event) => {
      const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      const other = step && event.target.closest("li")?.[step];
      if (other) {
        event.preventDefault();
        other.firstElementChild.focus();
      }
    });
    setInterval(() => this.#refresh(), REFRESH_MS);
  }

  get place() {
    return this.#place;
  }

  async show(place, selected) {
    const same = place.id === this.#place.id && this.#rows.length > 0;
    this.#selected = selected;
    if (same) return this.#draw();
    this.#place = place;
    $("search").value = "";
    $("search").placeholder = place === TOPICS ? "Find by first letters" : "Find by name";
    await this.reload();
  }

  async reload() {
    this.#rows = [];
    await this.#load(null);
  }

  clear() {
    this.#run += 1;
    this.#rows = [];
    this.#next = null;
    $("search").value = "";
    this.#draw();
  }

  async #load(after) {
    const run = (this.#run += 1);
    const contains = $("search").value.trim();
    let cursor = after;
    const found = [];
    try {
      for (let pages = 0; pages < PATIENCE; pages += 1) {
        const { rows, next } = await page(this.#place, contains, cursor);
        if (run !== this.#run) return;
        found.push(...rows);
        cursor = next;
        if (found.length > 0 || next === null) break;
      }
    } catch (error) {
      if (run === this.#run) this.#failed(error);
      return;
    }
    this.#rows = after === null ? found : [...this.#rows, ...found];
    this.#next = cursor;
    this.#draw();
  }

  // Keeps a list of one page fresh; a longer one stays as it was read.
  async #refresh() {
    if (document.hidden || $("app").hidden || this.#rows.length > PAGE) return;
    const run = this.#run;
    try {
      const { rows, next } = await page(this.#place, $("search").value.trim(), null);
      if (run !== this.#run || (rows.length === 0 && next !== null)) return;
      this.#rows = rows;
      this.#next = next;
      this.#draw();
    } catch (error) {
      if (run === this.#run) this.#failed(error);
    }
  }

  #draw() {
    update(
      $("list"),
      this.#rows.map((row) => element(row, this.#selected)),
    );
    const searching = $("search").value.trim() !== "";
    const what = this.#place === TOPICS ? "topics" : "streams";
    const unit = this.#rows.length === 1 && this.#next === null ? what.slice(0, -1) : what;
    $("place").textContent = this.#place.id;
    const count = number(this.#rows.length);
    $("count").textContent = `${count}${this.#next === null ? "" : "+"} ${searching ? "found" : unit}`;
    say($("list-empty"), this.#rows.length > 0 ? "" : searching ? "Nothing with that in its name." : `No ${what} here yet.`);
    $("list-more").hidden = this.#next === null;
    $("list-more").textContent = this.#rows.length > 0 ? "Load more" : "Search further";
  }
}

export class Places {
  #buckets = [];
  #next = null;
  #unbucketed = 0;
  #selected = null;
  #failed;

  constructor(failed) {
    this.#failed = failed;
    $("buckets-more").addEventListener("click", () => this.#load(this.#next));
    setInterval(() => {
      if (!document.hidden && !$("app").hidden && this.#buckets.length <= PAGE) this.#load(null);
    }, REFRESH_MS);
  }

  get first() {
    return !this.#unbucketed && this.#buckets.length > 0 ? bucketPlace(this.#buckets[0].bucket_id) : BASE;
  }

  get empty() {
    return this.#unbucketed === 0 && this.#buckets.every((each) => each.streams === 0);
  }

  get buckets() {
    return this.#buckets.map((each) => each.bucket_id);
  }

  async reload() {
    const page = await ask("/explorer/api/buckets", { limit: PAGE });
    this.#take(page, null);
  }

  clear() {
    this.#take({ buckets: [], next_cursor: null, unbucketed_streams: null }, null);
  }

  select(place) {
    this.#selected = place.id;
    this.#draw();
  }

  async #load(after) {
    try {
      this.#take(await ask("/explorer/api/buckets", { after, limit: PAGE }), after);
    } catch (error) {
      this.#failed(error);
    }
  }

  #take(page, after) {
    this.#buckets = after === null ? page.buckets : [...this.#buckets, ...page.buckets];
    this.#next = page.next_cursor;
    this.#unbucketed = page.unbucketed_streams;
    say($("trouble"), "");
    this.#draw();
  }

  #draw() {
    const link = (place, count) =>
      el(
        "li",
        {},
        el(
          "a",
          { href: `#${place.id}`, title: place.id, "aria-current": place.id === this.#selected ? "true" : null },
          el("bdi", { class: "mono" }, oneLine(place.label)),
          el("span", { class: "size" }, count === null ? "" : number(count)),
        ),
      );
    update($("roots"), [link(BASE, this.#unbucketed), link(TOPICS, null)]);
    update(
      $("buckets"),
      this.#buckets.map((each) => link(bucketPlace(each.bucket_id), each.streams)),
    );
    $("buckets-empty").hidden = this.#buckets.length > 0;
    $("buckets-more").hidden = this.#next === null;
  }
}
