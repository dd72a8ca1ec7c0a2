// Large files go up piece by piece (tus 1.0), so that a lost connection, or a page that was closed, costs a piece at most.

const VERSION = "1.0.0";
export const PIECE = 16 * 1024 * 1024;
const PATIENCE = [1, 2, 4, 8, 15, 30]; // seconds before the next try, the last one for ever
const REMEMBERED = "sprocket.upload:";

const inBase64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

// The same file for the same channel. Its bytes are not read: that would take as long as sending them.
const keyOf = (file, metadata) =>
  REMEMBERED + JSON.stringify([file.name, file.size, file.lastModified, metadata.channel, metadata.visibility]);

// A browser may refuse to remember; then a reloaded page begins anew.
const memory = {
  get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
  set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* see above */ } },
  remove: (key) => { try { localStorage.removeItem(key); } catch { /* see above */ } },
};

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

class Lost extends Error {}
export class Stopped extends Error {}

// `tell` is called with { state: "sending", sent } and { state: "waiting", seconds }.
export class ResumableUpload {
  constructor(file, { url, csrf, metadata, tell }) {
    this.file = file;
    this.url = url;
    this.csrf = csrf;
    this.metadata = metadata;
    this.tell = tell;
    this.key = keyOf(file, metadata);
    this.place = memory.get(this.key);
    this.stopped = false;
  }

  // What the server has made of the file: { id, title, created }. Throws Refused, or Stopped.
  async send() {
    let tries = 0;
    let sent = -1;
    for (;;) {
      if (this.stopped) throw new Stopped("stopped"); // while it waited
      try {
        const offset = await this.#offset();
        if (offset > sent) tries = 0;
        sent = Math.max(sent, offset);
        await this.#sendFrom(offset);
        return await this.#outcome();
      } catch (problem) {
        if (this.stopped) throw new Stopped("stopped");
        if (!(problem instanceof Lost)) throw this.#ended(problem);
        await this.#wait(PATIENCE[Math.min(tries, PATIENCE.length - 1)]);
        tries += 1;
      }
    }
  }

  // For good: what has arrived is removed.
  async stop() {
    this.stopped = true;
    this.request?.abort();
    this.wake?.();
    memory.remove(this.key);
    if (this.place) await this.#ask("DELETE", this.place).catch(() => {});
  }

  // Where to go on; begins the upload if there is none.
  async #offset() {
    if (this.place) {
      try {
        return Number((await this.#ask("HEAD", this.place)).getResponseHeader("Upload-Offset"));
      } catch (problem) {
        if (!(problem instanceof Refused) || ![404, 410].includes(problem.status)) throw problem;
        this.place = null; // it has expired
      }
    }
    const metadata = Object.entries({ filename: this.file.name, ...this.metadata });
    const answer = await this.#ask("POST", this.url, {
      "Upload-Length": this.file.size,
      "Upload-Metadata": metadata.map(([name, value]) => `${name} ${inBase64(value)}`).join(","),
    });
    this.place = answer.getResponseHeader("Location");
    memory.set(this.key, this.place);
    return 0;
  }

  async #sendFrom(start) {
    let offset = start;
    this.tell({ state: "sending", sent: offset });
    while (offset < this.file.size) {
      const headers = { "Upload-Offset": offset, "Content-Type": "application/offset+octet-stream" };
      const answer = await this.#ask("PATCH", this.place, headers, this.file.slice(offset, offset + PIECE), offset);
      offset = Number(answer.getResponseHeader("Upload-Offset"));
    }
  }

  async #outcome() {
    const answer = await this.#ask("GET", this.place);
    memory.remove(this.key);
    return JSON.parse(answer.responseText).video;
  }

  // What was refused for good is forgotten; what needs a new sign-in, or room, can go on when the file is dropped again.
  #ended(problem) {
    if (problem instanceof Refused && [404, 413, 422].includes(problem.status)) memory.remove(this.key);
    return problem;
  }

  #ask(method, address, headers = {}, body = null, offset = 0) {
    return new Promise((resolve, reject) => {
      if (this.stopped && method !== "DELETE") {
        reject(new Stopped("stopped")); // or an upload that was removed would begin anew
        return;
      }
      const request = new XMLHttpRequest();
      this.request = request;
      request.open(method, address);
      request.setRequestHeader("Tus-Resumable", VERSION);
      request.setRequestHeader("X-CSRFToken", this.csrf);
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      if (body) request.upload.addEventListener("progress", ({ loaded }) => this.tell({ state: "sending", sent: offset + loaded }));
      request.addEventListener("loadend", () => {
        const { status } = request;
        if (status >= 200 && status < 300) resolve(request);
        // No answer; or one of a proxy; or the upload is elsewhere, or in other hands for a moment: ask again.
        else if ([0, 409, 423, 429].includes(status) || (status >= 500 && status !== 507)) reject(new Lost(`${status}`));
        else reject(new Refused(status, detailOf(request)));
      });
      request.send(body);
    });
  }

  // Until the time is over, or the browser is online again.
  #wait(seconds) {
    this.tell({ state: "waiting", seconds });
    return new Promise((resolve) => {
      this.wake = resolve;
      addEventListener("online", resolve, { once: true });
      setTimeout(resolve, seconds * 1000);
    });
  }
}

const detailOf = (request) => {
  try {
    return JSON.parse(request.responseText).detail;
  } catch {
    return "";
  }
};
