// The messages on the page: a bounded number of them, the newest at the end, followed while live.

import { $, say } from "./dom.js";
import { MOST_MESSAGES, row } from "./messages.js";

const NEAR_END = 40;
const LIT_MESSAGES = 20;
const FLOOD_MS = 250;

export class Log {
  #messages = [];
  #waiting = [];
  #timer = 0;
  #follows = true;
  #compact = false;

  constructor() {
    const log = $("log");
    log.addEventListener("scroll", () => {
      this.#follows = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END;
      $("jump").hidden = this.#follows;
    });
    $("jump").addEventListener("click", () => this.toEnd());
    $("compact").addEventListener("click", () => {
      this.#compact = !this.#compact;
      $("compact").setAttribute("aria-pressed", this.#compact);
      $("messages").classList.toggle("compact", this.#compact);
      this.#drawAll();
    });
  }

  get first() {
    return this.#messages[0]?.offset;
  }

  clear(messages = []) {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#waiting = [];
    this.#messages = messages.slice(-MOST_MESSAGES);
    this.#follows = true;
    this.#drawAll();
  }

  // New messages are drawn together, at once when they are few; what would fall off right away is
  // never drawn.
  add(messages) {
    this.#waiting.push(...messages.slice(-MOST_MESSAGES));
    if (this.#waiting.length > 2 * MOST_MESSAGES) this.#waiting = this.#waiting.slice(-MOST_MESSAGES);
    if (this.#timer !== 0) return;
    const delay = this.#waiting.length > LIT_MESSAGES ? FLOOD_MS : 0;
    this.#timer = setTimeout(() => this.#drawNew(), delay);
  }

  // Older messages come in front; what no longer fits falls off at the end.
  prepend(messages) {
    const log = $("log");
    const before = log.scrollHeight - log.scrollTop;
    const all = [...messages.slice(-MOST_MESSAGES), ...this.#messages];
    this.#messages = all.slice(0, MOST_MESSAGES);
    this.#follows = false;
    this.#drawAll();
    log.scrollTop = log.scrollHeight - before;
  }

  toEnd() {
    this.#follows = true;
    $("log").scrollTop = $("log").scrollHeight;
    $("jump").hidden = true;
  }

  #drawNew() {
    this.#timer = 0;
    const list = $("messages");
    const fresh = this.#waiting.slice(-MOST_MESSAGES);
    this.#waiting = [];
    this.#messages = [...this.#messages, ...fresh].slice(-MOST_MESSAGES);
    // A few that arrive light up for a moment; in a flood nothing would be told by it.
    const lit = fresh.length <= LIT_MESSAGES;
    list.append(...fresh.map((each) => this.#row(each, lit)));
    while (list.childElementCount > this.#messages.length) list.firstElementChild.remove();
    this.#settle();
  }

  #drawAll() {
    $("messages").replaceChildren(...this.#messages.map((each) => this.#row(each, false)));
    this.#settle();
  }

  #row(message, fresh) {
    const item = row(message, this.#width(), this.#compact);
    if (fresh) item.classList.add("fresh");
    return item;
  }

  // How many characters a line of the pane holds.
  #width() {
    return Math.max(40, Math.min(120, Math.floor(($("log").clientWidth - 150) / 7.3)));
  }

  #settle() {
    say($("log-note"), this.#messages.length > 0 ? "" : "Nothing in it yet. What arrives is shown here.");
    if (this.#follows) this.toEnd();
    else $("jump").hidden = false;
  }
}
