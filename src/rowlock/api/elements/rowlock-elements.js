// @ts-check
/**
 * Rowlock elements: <rowlock-progress> shows one job, <rowlock-my-jobs> the jobs of one person.
 *
 * One ES module without dependencies and without a build step. It needs an embed token, which your application makes
 * with app.tokens.for_job() or app.tokens.for_user(). It works under a strict Content-Security-Policy: no inline style,
 * no inline script, no HTML from strings. Licence: that of Rowlock.
 */

/**
 * @typedef {{phase: string | null, done: number, total: number | null, fraction: number | null, eta: number | null,
 *   message: string | null, items: ItemCounts | null}} Progress
 * @typedef {{in_progress: number, completed: number, skipped: number, failed: number, total: number | null}} ItemCounts
 * @typedef {{id: string, kind: string, state: string, attempt: number, max_attempts: number, created_at: string,
 *   run_after: string, finished_at: string | null, cancel_requested: boolean, progress: Progress | null,
 *   result: unknown, error: {message?: string} | null, may_cancel: boolean, position?: Position | null}} Job
 * @typedef {{before: {value: number, exact: boolean}, start_in: number | null}} Position
 * @typedef {{name: string, data: any}} StreamEvent
 * @typedef {typeof TEXTS} Texts
 */

/** The API that served this module; the attribute `src` names another one. */
const OWN_API = new URL("..", import.meta.url).href;
const FINAL = new Set(["completed", "completed_with_errors", "failed", "cancelled", "expired"]);
const WAITING = new Set(["pending", "blocked", "queued"]);
/** Milliseconds without a byte, after which a connection counts as dead; the server sends a comment every 15 s. */
const SILENCE = 45_000;
const SHORTEST_WAIT = 1_000;
/** Milliseconds between two looks at the place in the queue: no event tells when others start. */
const POSITION_EVERY = 10_000;
const LONGEST_WAIT = 30_000;

/** Every text that is shown; the property `texts` of an element replaces some of them. */
export const TEXTS = {
  job: "Job",
  loading: "Loading…",
  pending: "Waiting for approval",
  blocked: "Waiting",
  queued: "Waiting to start",
  retrying: "Trying again soon",
  running: "Running",
  cancelling: "Cancelling…",
  completed: "Done",
  completed_with_errors: "Done, with errors",
  failed: "Failed",
  cancelled: "Cancelled",
  expired: "Not started in time",
  gone: "No longer available",
  tokenExpired: "This page has been open for too long. Reload it to go on.",
  refused: "This cannot be shown here.",
  offline: "Connection lost. Trying again…",
  cancel: "Cancel",
  empty: "No jobs yet.",
  more: "Show more",
  list: "My jobs",
  items: (/** @type {ItemCounts} */ counts) => {
    const ended = counts.completed + counts.skipped + counts.failed;
    const failed = counts.failed > 0 ? `, ${counts.failed} failed` : "";
    return counts.total === null ? `${ended} items${failed}` : `${ended} of ${counts.total} items${failed}`;
  },
  position: (/** @type {Position} */ { before, start_in }) => {
    const jobs = before.value === 1 && before.exact ? "1 job" : `${before.value}${before.exact ? "" : "+"} jobs`;
    const place = before.value === 0 ? "next in line" : `${jobs} before it`;
    return start_in === null ? place : `${place}, starts in about ${humanDuration(start_in)}`;
  },
  attempt: (/** @type {Job} */ job) => `attempt ${job.attempt} of ${job.max_attempts}`,
  eta: (/** @type {number} */ seconds) => `about ${humanDuration(seconds)} left`,
};

const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`
  :host { display: block; font: inherit; color: inherit; }
  :host([hidden]) { display: none; }
  [part="job"] { display: grid; gap: var(--rowlock-gap, 0.375rem); }
  [part="job"][hidden] { display: none; }
  [part="header"] { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; justify-content: space-between; align-items: baseline; }
  [part="label"] { font-weight: var(--rowlock-label-weight, 600); overflow-wrap: anywhere; }
  [part="track"] {
    block-size: var(--rowlock-height, 0.5rem); border-radius: var(--rowlock-radius, 0.25rem); overflow: hidden;
    background: var(--rowlock-track, color-mix(in srgb, currentColor 16%, transparent));
  }
  [part="bar"] {
    block-size: 100%; inline-size: 0; border-radius: inherit; background: var(--rowlock-accent, #1f6feb);
    transition: inline-size 0.3s ease;
  }
  [part="job"][data-state="completed"] [part="bar"] { background: var(--rowlock-success, #1a7f37); }
  [part="job"][data-state="completed_with_errors"] [part="bar"] { background: var(--rowlock-warning, #9a6700); }
  [part="job"][data-state="failed"] [part="bar"],
  [part="job"][data-state="expired"] [part="bar"] { background: var(--rowlock-danger, #cf222e); }
  [part="job"][data-state="cancelled"] [part="bar"] { background: var(--rowlock-muted, #6e7781); }
  [part="job"][data-busy] [part="bar"] { inline-size: 40%; animation: busy 1.5s ease-in-out infinite; }
  @keyframes busy { from { margin-inline-start: -40%; } to { margin-inline-start: 100%; } }
  [part="details"] { font-size: var(--rowlock-details-size, 0.875em); overflow-wrap: anywhere; }
  [part="details"]:empty, [part="notice"]:empty { display: none; }
  [part="notice"] { font-size: var(--rowlock-details-size, 0.875em); }
  button { font: inherit; color: inherit; padding: 0.25rem 0.75rem; min-block-size: 1.75rem; cursor: pointer;
    background: transparent; border: 1px solid currentColor; border-radius: var(--rowlock-radius, 0.25rem); }
  button:disabled { opacity: 0.6; cursor: default; }
  button:focus-visible { outline: 2px solid var(--rowlock-accent, #1f6feb); outline-offset: 2px; }
  button[hidden] { display: none; }
  [part="cancel"] { justify-self: start; }
  [part="list"] { list-style: none; margin: 0; padding: 0; display: grid; gap: var(--rowlock-list-gap, 1.25rem); }
  [part="announcer"] { position: absolute; inline-size: 1px; block-size: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  @media (prefers-reduced-motion: reduce) {
    [part="bar"] { transition: none; }
    [part="job"][data-busy] [part="bar"] { animation: none; }
  }
`);

/** @param {number} seconds */
function humanDuration(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3_600)} h`;
}

/**
 * @param {string} name @param {string} part @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
function made(name, part, ...children) {
  const element = document.createElement(name);
  element.setAttribute("part", part);
  element.append(...children);
  return element;
}

/** @param {Node} node @param {string} text */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text; // an unchanged live region is not announced again
}

/** @param {number} milliseconds @param {AbortSignal} signal */
function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      window.removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      resolve(undefined);
    };
    const timer = setTimeout(end, milliseconds);
    window.addEventListener("online", end); // the network is back: try at once
    signal.addEventListener("abort", end, { once: true });
  });
}

/** An answer of the API that trying again does not change. */
class Refused extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Asks the API with the token of an element, and asks for a new token when the old one has expired. */
class EmbedClient {
  /** @param {RowlockElement} element */
  constructor(element) {
    this.element = element;
    /** @type {string | null} */
    this.renewed = null;
    /** @type {Set<string>} */
    this.refused = new Set();
  }

  /**
   * @param {string} path @param {AbortSignal} signal @param {RequestInit & {headers?: Record<string, string>}} [init]
   * @returns {Promise<Response>}
   */
  async request(path, signal, init = {}) {
    for (;;) {
      const token = await this.token();
      const response = await fetch(new URL(`embed/${path}`, this.element.api), {
        ...init,
        signal,
        headers: { Accept: "application/json", ...init.headers, Authorization: `Bearer ${token}` },
        credentials: "omit",
        cache: "no-store",
        referrerPolicy: "no-referrer",
      });
      if (response.status === 401) {
        this.refused.add(token);
        continue;
      }
      if (response.status >= 400 && response.status < 500 && response.status !== 429) {
        const problem = await response.json().catch(() => ({}));
        throw new Refused(response.status, problem.code ?? "refused", problem.detail ?? response.statusText);
      }
      if (!response.ok && response.status !== 304) throw new Error(`The server answered ${response.status}.`);
      return response;
    }
  }

  /**
   * A token that was not refused: the newest one, that of the attribute, or one that the page gives now.
   * @returns {Promise<string>}
   */
  async token() {
    const { element } = this;
    for (const known of [this.renewed, element.getAttribute("token")]) {
      if (known && !this.refused.has(known)) return known;
    }
    const given = await element.provideToken();
    if (!given || this.refused.has(given)) {
      throw new Refused(401, "token-expired", "The token has expired, and there is no new one.");
    }
    this.renewed = given;
    return given;
  }

  /**
   * The events of a job, until the connection ends.
   * @param {string} job @param {string} lastId @param {AbortSignal} signal
   * @param {(event: StreamEvent, id: string) => void} onEvent
   * @returns {Promise<{over: boolean, retry: number}>}
   */
  async follow(job, lastId, signal, onEvent) {
    /** @type {Record<string, string>} */
    const headers = { Accept: "text/event-stream" };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const connection = new AbortController();
    const stop = () => connection.abort();
    signal.addEventListener("abort", stop, { once: true });
    let watchdog = setTimeout(stop, SILENCE);
    let retry = SHORTEST_WAIT;
    try {
      const response = await this.request(`jobs/${encodeURIComponent(job)}/stream`, connection.signal, { headers });
      if (response.status === 204 || !response.body) return { over: true, retry };
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let buffer = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return { over: false, retry };
        clearTimeout(watchdog);
        watchdog = setTimeout(stop, SILENCE);
        buffer += value;
        const frames = buffer.split("\n\n");
        buffer = frames.pop() ?? "";
        for (const frame of frames) {
          const fields = parsed(frame);
          if (fields.retry) retry = Number(fields.retry);
          if (fields.data) onEvent({ name: fields.event ?? "message", data: JSON.parse(fields.data) }, fields.id ?? "");
          else if (fields.id) onEvent({ name: "", data: null }, fields.id);
        }
      }
    } finally {
      clearTimeout(watchdog);
      signal.removeEventListener("abort", stop);
    }
  }
}

/** @param {string} frame @returns {Record<string, string>} */
function parsed(frame) {
  /** @type {Record<string, string>} */
  const fields = {};
  for (const line of frame.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
  }
  return fields;
}

let numbered = 0;

/** The bar, the state and the details of one job. */
class JobView {
  /** @param {Texts} texts @param {() => void} onCancel */
  constructor(texts, onCancel) {
    this.texts = texts;
    this.label = made("span", "label");
    this.label.id = `rowlock-label-${++numbered}`;
    this.status = made("span", "status", texts.loading);
    this.bar = made("div", "bar");
    this.track = made("div", "track", this.bar);
    this.track.setAttribute("role", "progressbar");
    this.track.setAttribute("aria-valuemin", "0");
    this.track.setAttribute("aria-valuemax", "100");
    this.track.setAttribute("aria-labelledby", this.label.id);
    this.details = made("div", "details");
    this.cancel = /** @type {HTMLButtonElement} */ (made("button", "cancel", texts.cancel));
    this.cancel.type = "button";
    this.cancel.hidden = true;
    this.cancel.addEventListener("click", onCancel);
    this.root = made("div", "job", made("div", "header", this.label, this.status), this.track, this.details, this.cancel);
    this.root.dataset.busy = "";
  }

  /** @param {Job} job @param {string} label */
  show(job, label) {
    const { texts } = this;
    if (label) setText(this.label, label);
    const text = statusOf(job, texts);
    setText(this.status, text);
    this.root.dataset.state = job.state;
    const percent = percentOf(job);
    this.root.toggleAttribute("data-busy", job.state === "running" && percent === null);
    this.bar.style.inlineSize = percent === null ? "" : `${percent}%`;
    if (percent === null) this.track.removeAttribute("aria-valuenow");
    else this.track.setAttribute("aria-valuenow", String(Math.round(percent)));
    const details = detailsOf(job, texts);
    setText(this.details, details);
    this.track.setAttribute("aria-valuetext", percent === null ? text : `${Math.round(percent)} %, ${text}`);
    this.cancel.hidden = !job.may_cancel;
    this.cancel.disabled = job.cancel_requested;
  }
}

/** @param {Job} job @param {Texts} texts @returns {string} */
function statusOf(job, texts) {
  if (job.state === "running" && job.cancel_requested) return texts.cancelling;
  if (job.state === "queued" && job.attempt > 0) return texts.retrying;
  const known = /** @type {Record<string, unknown>} */ (texts)[job.state];
  return typeof known === "string" ? known : job.state;
}

/** @param {Job} job @returns {number | null} */
function percentOf(job) {
  if (job.state === "completed" || job.state === "completed_with_errors") return 100;
  const { progress } = job;
  if (WAITING.has(job.state)) return 0;
  let fraction = progress?.fraction ?? null;
  if (fraction === null && progress?.items?.total) {
    const { completed, skipped, failed, total } = progress.items;
    fraction = (completed + skipped + failed) / total;
  }
  if (fraction === null) return FINAL.has(job.state) ? 0 : null;
  return Math.min(100, Math.max(0, fraction * 100));
}

/** @param {Job} job @param {Texts} texts @returns {string} */
function detailsOf(job, texts) {
  const { progress } = job;
  const parts = [];
  if (job.state === "running" && progress) {
    if (progress.phase) parts.push(progress.phase);
    if (progress.message) parts.push(progress.message);
    if (progress.eta !== null && progress.eta > 0) parts.push(texts.eta(progress.eta));
  }
  if (job.state === "queued" && job.position) parts.push(texts.position(job.position));
  if (progress?.items && !WAITING.has(job.state)) parts.push(texts.items(progress.items));
  if (job.attempt > 1 && !FINAL.has(job.state)) parts.push(texts.attempt(job));
  if (job.error?.message && FINAL.has(job.state)) parts.push(job.error.message);
  return parts.join(" · ");
}

/** What both elements share: the token, the address of the API, texts, notices and events. */
class RowlockElement extends HTMLElement {
  constructor() {
    super();
    this.shadow = this.attachShadow({ mode: "open" });
    this.shadow.adoptedStyleSheets = [STYLE];
    this.notice = made("div", "notice");
    this.announcer = made("div", "announcer");
    this.announcer.setAttribute("role", "status");
    this.client = new EmbedClient(this);
    /** A function that returns a new token, or a promise of one. @type {(() => string | Promise<string>) | null} */
    this.tokenProvider = null;
    /** @type {Texts} */
    this.allTexts = { ...TEXTS };
    /** @type {AbortController | null} */
    this.running = null;
    /** @type {Promise<string> | null} */
    this.asking = null;
  }

  /** Texts that replace the English ones; set it before the element is shown. @param {Partial<Texts>} texts */
  set texts(texts) {
    Object.assign(this.allTexts, texts);
  }

  /** The address of the API, with a slash at its end. */
  get api() {
    const written = this.getAttribute("src");
    return new URL(written ? `${written.replace(/\/+$/, "")}/` : OWN_API, document.baseURI).href;
  }

  connectedCallback() {
    this.start();
  }

  disconnectedCallback() {
    this.running?.abort();
    this.running = null;
  }

  /** @param {string} name @param {string | null} before @param {string | null} after */
  attributeChangedCallback(name, before, after) {
    if (before === after || !this.isConnected) return;
    // A new token is used with the next request; nothing that runs is interrupted.
    if (name === "token" && this.running !== null) return;
    this.start();
  }

  start() {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.run(running.signal)
      .catch((error) => {
        if (!running.signal.aborted) this.fail(error);
      })
      .finally(() => {
        if (this.running === running) this.running = null;
      });
  }

  /** @param {AbortSignal} _signal @returns {Promise<void>} */
  async run(_signal) {}

  /** A new token from the page: several requests at once ask once. @returns {Promise<string | null>} */
  async provideToken() {
    if (!this.tokenProvider && !this.hasAttribute("token-src")) return null;
    this.asking ??= this.askForToken().finally(() => {
      this.asking = null;
    });
    return this.asking;
  }

  /** @returns {Promise<string>} */
  async askForToken() {
    if (this.tokenProvider) return this.tokenProvider();
    const url = new URL(this.getAttribute("token-src") ?? "", document.baseURI);
    const response = await fetch(url, { credentials: "same-origin", cache: "no-store", headers: { Accept: "application/json" } });
    if (response.status === 401 || response.status === 403 || response.status === 404) {
      throw new Refused(response.status, "token-refused", `The page gives no token: ${url.pathname} answered ${response.status}.`);
    }
    if (!response.ok) throw new Error(`${url.pathname} answered ${response.status}.`);
    const answer = await response.json();
    return typeof answer === "string" ? answer : answer.token;
  }

  /** @param {unknown} error */
  fail(error) {
    const { allTexts: texts } = this;
    const refused = error instanceof Refused ? error : null;
    const expired = refused?.code === "token-expired" || refused?.code === "token-refused";
    const text = expired ? texts.tokenExpired : refused?.status === 404 ? texts.gone : texts.refused;
    this.setAttribute("state", expired ? "token-expired" : refused?.status === 404 ? "gone" : "error");
    this.connected(true);
    setText(this.notice, text);
    setText(this.announcer, text);
    this.tell("rowlock-error", { code: refused?.code ?? "error", message: error instanceof Error ? error.message : String(error) });
  }

  /** @param {boolean} is */
  connected(is) {
    this.toggleAttribute("offline", !is);
    setText(this.notice, is ? "" : this.allTexts.offline);
  }

  /** @param {string} name @param {object} detail */
  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  /** @param {Job} job @param {JobView} view @returns {Promise<Job | null>} */
  async cancelJob(job, view) {
    view.cancel.disabled = true;
    try {
      const signal = AbortSignal.timeout(LONGEST_WAIT);
      const response = await this.client.request(`jobs/${encodeURIComponent(job.id)}/cancel`, signal, { method: "POST" });
      return await response.json();
    } catch (error) {
      view.cancel.disabled = false;
      const message = error instanceof Error ? error.message : String(error);
      this.tell("rowlock-error", { code: error instanceof Refused ? error.code : "error", message });
      return null;
    }
  }
}

/**
 * <rowlock-progress job="…" token="…">: one job, live.
 *
 * Attributes: job, token, token-src, src, label. Properties: tokenProvider, texts, job. It sets the attributes state and
 * offline. Events: rowlock-change and rowlock-end (detail.job), rowlock-error (detail.code, detail.message).
 */
export class RowlockProgress extends RowlockElement {
  static observedAttributes = ["job", "token", "src", "token-src"];

  constructor() {
    super();
    this.view = new JobView(this.allTexts, () => this.onCancel());
    const slot = document.createElement("slot");
    slot.name = "label";
    this.slotText = document.createTextNode("");
    slot.append(this.slotText);
    this.view.label.append(slot);
    this.shadow.append(this.view.root, this.notice, this.announcer);
    /** @type {Job | null} */
    this.current = null;
    this.lastId = "";
  }

  /** The job as it was last shown. @returns {Job | null} */
  get job() {
    return this.current;
  }

  /** @override @param {AbortSignal} signal */
  async run(signal) {
    const id = this.getAttribute("job");
    if (!id) return;
    if (this.current && this.current.id !== id) this.lastId = "";
    setText(this.slotText, this.getAttribute("label") ?? this.current?.kind ?? this.allTexts.job);
    this.view.root.hidden = false;
    void this.followPosition(id, signal);
    let wait = SHORTEST_WAIT;
    while (!signal.aborted) {
      let ended = false;
      try {
        const stream = await this.client.follow(id, this.lastId, signal, (event, position) => {
          if (position) this.lastId = position;
          if (event.name !== "unavailable") this.connected(true);
          wait = SHORTEST_WAIT;
          ended ||= this.apply(event);
        });
        if (ended || stream.over) return await this.finish(id, signal);
        wait = Math.max(wait, stream.retry);
      } catch (error) {
        if (signal.aborted || error instanceof Refused) throw error;
        this.connected(false);
      }
      await pause(wait * (0.75 + Math.random() / 2), signal);
      wait = Math.min(LONGEST_WAIT, wait * 2);
    }
  }

  /** Take in one event; true: it is the end. @param {StreamEvent} event */
  apply({ name, data }) {
    if (name === "end") return true;
    if (name === "unavailable") this.connected(false);
    if (name === "snapshot") this.show(data);
    if (!name.startsWith("job.") || name === "job.log" || !this.current) return false;
    const job = { ...this.current };
    if (name === "job.progress") {
      const { phase, done, total, fraction, message, eta, items } = data;
      job.progress = { phase, done, total, fraction, message, eta, items: items ?? null };
    } else {
      if (name === "job.claimed") job.progress = null;
      job.cancel_requested = name === "job.cancelling";
      if (data.attempt) job.attempt = data.attempt;
      if (data.run_after) job.run_after = data.run_after;
      if (data.error) job.error = data.error;
    }
    if (data.state) job.state = data.state;
    if (job.state !== "queued") job.position = null;
    if (FINAL.has(job.state)) job.may_cancel = false;
    this.show(job);
    return false;
  }

  /** Ask for the place in the queue while the job waits and the page is seen. @param {string} id @param {AbortSignal} signal */
  async followPosition(id, signal) {
    for (let wait = SHORTEST_WAIT; !signal.aborted && !(this.current && FINAL.has(this.current.state)); wait = POSITION_EVERY) {
      await pause(wait, signal);
      if (document.hidden) await shown(signal);
      if (signal.aborted || this.current?.id !== id || this.current.state !== "queued") continue;
      try {
        const job = await (await this.client.request(`jobs/${encodeURIComponent(id)}`, signal)).json();
        // The stream alone tells of states; an answer that is older than it must not take one back.
        if (this.current.state === "queued" && job.state === "queued") this.show({ ...this.current, position: job.position });
      } catch {
        // The stream says when the connection is lost; the place in the queue is told with the next look.
      }
    }
  }

  /** @param {string} id @param {AbortSignal} signal */
  async finish(id, signal) {
    const response = await this.client.request(`jobs/${encodeURIComponent(id)}`, signal);
    const job = await response.json();
    this.connected(true);
    this.show(job);
    this.tell("rowlock-end", { state: job.state, job });
  }

  /** @override @param {unknown} error */
  fail(error) {
    // Without a job there is nothing to measure; the notice says why.
    this.view.root.hidden = this.current === null;
    super.fail(error);
  }

  /** @param {Job} job */
  show(job) {
    const before = this.current;
    this.current = job;
    setText(this.slotText, this.getAttribute("label") ?? job.kind);
    this.view.show(job, "");
    this.setAttribute("state", job.state);
    // Changes of state and phase are announced; every percent would be a flood.
    const phase = job.state === "running" ? (job.progress?.phase ?? "") : "";
    if (!before || before.state !== job.state || (before.progress?.phase ?? "") !== phase) {
      setText(this.announcer, [statusOf(job, this.allTexts), phase].filter(Boolean).join(": "));
    }
    this.tell("rowlock-change", { state: job.state, job });
  }

  async onCancel() {
    const job = this.current && (await this.cancelJob(this.current, this.view));
    if (job) this.show(job);
  }
}

/**
 * <rowlock-my-jobs token="…">: the jobs of one person, newest first, refreshed while the page is visible.
 *
 * Attributes: token, token-src, src, limit (20), poll-interval (seconds, 5). Properties: tokenProvider, texts,
 * labels (kind to text, or a function of the job). Events: rowlock-change (detail.jobs), rowlock-error.
 */
export class RowlockMyJobs extends RowlockElement {
  static observedAttributes = ["token", "src", "token-src"];

  constructor() {
    super();
    this.list = made("ul", "list");
    this.list.setAttribute("aria-label", this.allTexts.list);
    this.empty = made("div", "empty");
    const slot = document.createElement("slot");
    slot.name = "empty";
    slot.append(this.allTexts.empty);
    this.empty.append(slot);
    this.empty.hidden = true;
    this.more = /** @type {HTMLButtonElement} */ (made("button", "more", this.allTexts.more));
    this.more.type = "button";
    this.more.hidden = true;
    this.more.addEventListener("click", () => this.onMore());
    this.shadow.append(this.list, this.empty, this.more, this.notice, this.announcer);
    /** @type {Map<string, {item: HTMLElement, view: JobView, job: Job}>} */
    this.rows = new Map();
    /** What to call a job. @type {Record<string, string> | ((job: Job) => string)} */
    this.labels = {};
    /** @type {string | null} */
    this.nextPage = null;
    this.pages = 1;
  }

  /** @override @param {AbortSignal} signal */
  async run(signal) {
    setText(this.more, this.allTexts.more);
    let wait = SHORTEST_WAIT;
    while (!signal.aborted) {
      try {
        await this.refresh(signal);
        this.connected(true);
        wait = 1_000 * Math.max(1, Number(this.getAttribute("poll-interval")) || 5);
      } catch (error) {
        if (signal.aborted || error instanceof Refused) throw error;
        this.connected(false);
        wait = Math.min(LONGEST_WAIT, wait * 2);
      }
      await pause(wait, signal);
      if (document.hidden) await shown(signal);
    }
  }

  /** @param {AbortSignal} signal */
  async refresh(signal) {
    /** @type {Job[]} */
    const jobs = [];
    /** @type {string | null} */
    let before = null;
    for (let page = 0; page < this.pages; page++) {
      const query = new URLSearchParams({ limit: this.getAttribute("limit") ?? "20" });
      if (before) query.set("before", before);
      /** @type {{items: Job[], before: string | null}} */
      const answer = await (await this.client.request(`jobs?${query}`, signal)).json();
      jobs.push(...answer.items);
      before = answer.before;
      if (before === null) break;
    }
    this.nextPage = before;
    this.show(jobs);
  }

  /** @param {Job[]} jobs */
  show(jobs) {
    const ids = new Set(jobs.map((job) => job.id));
    for (const [id, row] of this.rows) {
      if (!ids.has(id)) {
        row.item.remove();
        this.rows.delete(id);
      }
    }
    jobs.forEach((job, place) => {
      const row = this.rows.get(job.id) ?? this.added(job);
      const changed = row.job.state !== job.state;
      row.job = job;
      row.view.show(job, this.labelOf(job));
      if (changed) setText(this.announcer, `${this.labelOf(job)}: ${statusOf(job, this.allTexts)}`);
      if (this.list.children[place] !== row.item) this.list.insertBefore(row.item, this.list.children[place] ?? null);
    });
    this.list.hidden = jobs.length === 0;
    this.empty.hidden = jobs.length > 0;
    this.more.hidden = this.nextPage === null;
    this.setAttribute("state", jobs.length > 0 ? "ready" : "empty");
    this.tell("rowlock-change", { jobs });
  }

  /** @param {Job} job */
  added(job) {
    const view = new JobView(this.allTexts, () => this.onCancel(job.id));
    const item = made("li", "item", view.root);
    const row = { item, view, job };
    this.rows.set(job.id, row);
    return row;
  }

  /** @param {Job} job @returns {string} */
  labelOf(job) {
    return typeof this.labels === "function" ? this.labels(job) : (this.labels[job.kind] ?? job.kind);
  }

  /** @param {string} id */
  async onCancel(id) {
    const row = this.rows.get(id);
    const job = row && (await this.cancelJob(row.job, row.view));
    if (row && job) {
      row.job = job;
      row.view.show(job, this.labelOf(job));
    }
  }

  onMore() {
    this.pages += 1;
    this.start();
  }
}

/** Until the page is visible again. @param {AbortSignal} signal */
function shown(signal) {
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      resolve(undefined);
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check, { once: true });
    check();
  });
}

if (!customElements.get("rowlock-progress")) customElements.define("rowlock-progress", RowlockProgress);
if (!customElements.get("rowlock-my-jobs")) customElements.define("rowlock-my-jobs", RowlockMyJobs);
