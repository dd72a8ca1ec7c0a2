// Live pages. No dependency, no inline script; works under a strict Content-Security-Policy.
//
// A server-rendered page becomes live by attributes:
//
//   data-live-source="/url/of/a/stream"   on any element: what to listen to (one per page is enough)
//   data-live="job.01H….percent"          shows the value of that name; how depends on the element:
//       <progress>            its value (null: indeterminate)
//       class="sp-badge"      its text and data-status, which gives the colour
//       <time>                its datetime, see data-live-time
//       <a data-live-attr="href">   the attribute that data-live-attr names
//       anything else         its text; HTML from the server replaces what is inside, element by element, so that
//                             bars go on moving and the focus stays (give rows that come and go a data-key)
//   data-live-show="name"  data-live-hide="name"   shown (hidden) while the value is true, not 0 and not empty
//   data-live-time="ago" or "left"        on <time datetime="…">: "12 s ago", "in 3 min", counted on by the page itself
//   data-live-now="{% now "c" %}"          beside data-live-source: the server's clock, in case the visitor's is wrong
//   data-live-status                      on an empty element: says "live", "connection lost, reconnecting …" and so on.
//                                         Without one, a bar appears at the bottom while there is no connection.
//
// A script of the page hears every update: document.addEventListener("live", (event) => event.detail["video.status"]).
// It may also call Sprocket.apply({"name": value}) itself.
//
// The connection: EventSource. Lost, it comes back with growing pauses and gets the whole present state; a hidden tab lets go of
// it (browsers allow six per site) and catches up when it is shown. A server that has no stream to spare (503) is asked for
// the state every few seconds instead.
"use strict";

(() => {
  const LONGEST_PAUSE = 30000, POLL = 5000, TRY_STREAM_AGAIN = 60000;
  const SILENT_BEATS = 2.5; // heartbeats without a word after which the connection counts as lost
  const SHOW_LOSS_AFTER = 1500;
  const LET_GO_AFTER = 10000;

  let serverAhead = 0; // milliseconds by which the server's clock is ahead of ours

  // -- showing values ------------------------------------------------------------------------------------------------

  const isTrue = (value) => Boolean(value && (value.html ?? true));

  function showIn(element, value) {
    const attribute = element.dataset.liveAttr;
    if (attribute) {
      if (value === null || value === false) element.removeAttribute(attribute);
      else element.setAttribute(attribute, value === true ? "" : value);
    } else if (value && value.html !== undefined) {
      morph(element, value.html);
    } else if (element instanceof HTMLProgressElement) {
      if (value === null) element.removeAttribute("value");
      else if (element.getAttribute("value") !== String(value)) element.setAttribute("value", value);
    } else if (element instanceof HTMLTimeElement) {
      element.dateTime = value ?? "";
      tellTime(element);
    } else {
      const text = value === null ? "" : typeof value === "number" ? value.toLocaleString("en") : String(value);
      if (element.textContent !== text) element.textContent = text;
      if (element.classList.contains("sp-badge")) element.dataset.status = text;
    }
  }

  function apply(values) {
    const regions = [];
    for (const element of document.querySelectorAll("[data-live]")) {
      const name = element.dataset.live;
      if (!(name in values)) continue;
      if (values[name] && values[name].html !== undefined) regions.push([element, values[name]]);
      else showIn(element, values[name]);
    }
    for (const [element, value] of regions) showIn(element, value);
    for (const element of document.querySelectorAll("[data-live-show]")) {
      if (element.dataset.liveShow in values) element.hidden = !isTrue(values[element.dataset.liveShow]);
    }
    for (const element of document.querySelectorAll("[data-live-hide]")) {
      if (element.dataset.liveHide in values) element.hidden = isTrue(values[element.dataset.liveHide]);
    }
    document.dispatchEvent(new CustomEvent("live", { detail: values }));
  }

  // -- HTML: change what differs, keep what is the same ----------------------------------------------------------------

  function morph(element, html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    morphChildren(element, template.content);
    element.querySelectorAll("time[data-live-time]").forEach(tellTime);
  }

  function morphChildren(present, wanted) {
    const keyed = new Map();
    for (const child of present.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
    let here = present.firstChild;
    for (const node of [...wanted.childNodes]) {
      const key = node.dataset && node.dataset.key;
      let match = key ? keyed.get(key) : here;
      if (match && !key && match.dataset && match.dataset.key) match = null;
      if (match && isSameKind(match, node)) {
        if (match !== here) present.insertBefore(match, here);
        else here = here.nextSibling;
        morphNode(match, node);
      } else {
        present.insertBefore(node, here);
      }
    }
    while (here) {
      const next = here.nextSibling;
      here.remove();
      here = next;
    }
  }

  const isSameKind = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName;

  function morphNode(present, wanted) {
    if (present.nodeType !== Node.ELEMENT_NODE) {
      if (present.nodeValue !== wanted.nodeValue) present.nodeValue = wanted.nodeValue;
      return;
    }
    const isOpened = present.nodeName === "DETAILS"; // people open and close these
    for (const { name } of [...present.attributes]) {
      if (!wanted.hasAttribute(name) && !(isOpened && name === "open")) present.removeAttribute(name);
    }
    for (const { name, value } of wanted.attributes) {
      if (present.getAttribute(name) !== value) present.setAttribute(name, value);
    }
    morphChildren(present, wanted);
  }

  // -- time goes on between two updates ----------------------------------------------------------------------------------

  function tellTime(element) {
    const kind = element.dataset.liveTime;
    const moment = Date.parse(element.dateTime);
    if (!kind) return;
    if (Number.isNaN(moment)) {
      element.textContent = "";
      return;
    }
    const seconds = (moment - Date.now() - serverAhead) / 1000;
    const left = seconds < 1 ? "a moment" : inWords(seconds);
    const text = kind === "left" ? left : `${inWords(Math.max(0, -seconds))} ago`;
    if (element.textContent !== text) element.textContent = text;
    if (!element.title) element.title = new Date(moment).toLocaleString();
  }

  // As jobs/dashboard/words.py says it.
  function inWords(seconds) {
    if (seconds < 90) return `${Math.floor(seconds)} s`;
    if (seconds < 5400) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
  }

  // -- the state of the connection -----------------------------------------------------------------------------------

  const WORDS = {
    connecting: "connecting …",
    live: "live",
    polling: "updated every few seconds",
    lost: "connection lost, reconnecting …",
    refused: "no longer signed in: reload the page",
  };
  let lossTimer = null;
  let lastShown = "";

  function showState(state) {
    if (state === "lost" && lastShown !== "lost") {
      lossTimer ??= setTimeout(() => tellState("lost"), SHOW_LOSS_AFTER);
      return;
    }
    clearTimeout(lossTimer);
    lossTimer = null;
    tellState(state);
  }

  function tellState(state) {
    lastShown = state;
    document.documentElement.dataset.liveState = state;
    let places = document.querySelectorAll("[data-live-status]");
    if (!places.length && (state === "lost" || state === "refused")) places = [makeBar()];
    for (const place of places) {
      place.classList.add("sp-live");
      place.dataset.state = state;
      place.setAttribute("role", "status");
      if (place.textContent !== WORDS[state]) place.textContent = WORDS[state];
      if (place.id === "sp-live-bar") place.hidden = state !== "lost" && state !== "refused";
    }
  }

  function makeBar() {
    const bar = document.createElement("div");
    bar.id = "sp-live-bar";
    bar.dataset.liveStatus = "";
    document.body.append(bar);
    return bar;
  }

  // -- the connection --------------------------------------------------------------------------------------------------

  function connect(address) {
    let events = null, timer = null, silence = null, lastId = "", pollingSince = 0;
    let firstPause = 1000, beat = 30000; // until the server says otherwise
    let pause = firstPause;

    const withLastId = () => {
      const url = new URL(address, location.href);
      if (lastId) url.searchParams.set("last_event_id", lastId);
      return url;
    };

    function open() {
      clearTimeout(timer);
      if (events || document.hidden) return;
      events = new EventSource(withLastId());
      listenForSilence();
      events.onopen = () => {
        pause = firstPause;
        pollingSince = 0;
        showState("live");
        listenForSilence();
      };
      events.onmessage = (message) => {
        lastId = message.lastEventId;
        listenForSilence();
        apply(JSON.parse(message.data));
      };
      events.addEventListener("beat", (message) => {
        const told = JSON.parse(message.data); // the first one of a connection says how long to wait
        if (told.every) beat = told.every * 1000;
        if (told.reconnect) pause = firstPause = told.reconnect * 1000;
        listenForSilence();
      });
      events.onerror = () => {
        close();
        ask();
      };
    }

    function listenForSilence() {
      clearTimeout(silence);
      silence = setTimeout(() => { close(); ask(); }, SILENT_BEATS * beat);
    }

    function close() {
      clearTimeout(silence);
      clearTimeout(timer);
      events?.close();
      events = null;
    }

    // Without a stream: is the server away, full, or does it refuse us? The state itself is the answer.
    async function ask() {
      let next = open, after = pause * (0.75 + Math.random() / 2);
      try {
        const answer = await fetch(address, { headers: { Accept: "application/json" }, cache: "no-store" });
        if (answer.ok) {
          apply(await answer.json());
          lastId = "";
          if (pollingSince || pause > firstPause) showState("polling");
          pollingSince ||= Date.now();
          if (pause > firstPause && Date.now() - pollingSince < TRY_STREAM_AGAIN) [next, after] = [ask, POLL];
          else pollingSince = 0;
        } else if ([401, 403, 404].includes(answer.status)) {
          showState("refused");
          return;
        } else {
          showState("lost");
        }
      } catch {
        showState("lost");
      }
      pause = Math.min(LONGEST_PAUSE, pause * 2);
      clearTimeout(timer);
      if (events) return; // the page was shown again meanwhile
      if (!document.hidden) timer = setTimeout(next, after);
    }

    let letGo = null;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(letGo);
      if (document.hidden) letGo = setTimeout(close, LET_GO_AFTER);
      else open();
    });
    addEventListener("online", () => { pause = firstPause; open(); });
    addEventListener("pagehide", close);
    addEventListener("pageshow", (event) => { if (event.persisted) open(); });
    showState("connecting");
    open();
  }

  function setClock(text) {
    const ahead = Date.parse(text) - performance.timeOrigin;
    serverAhead = Math.abs(ahead) > 5000 ? ahead : 0;
  }

  globalThis.Sprocket = { apply };

  function start() {
    const sources = new Set([...document.querySelectorAll("[data-live-source]")].map((e) => e.dataset.liveSource));
    sources.forEach(connect);
    const clock = document.querySelector("[data-live-now]");
    if (clock) setClock(clock.dataset.liveNow);
    const times = () => document.querySelectorAll("time[data-live-time]").forEach(tellTime);
    times();
    setInterval(times, 1000);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
