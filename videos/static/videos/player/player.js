// The player: controls around a <video>, built here; without this script the browser's own controls stay.
//
//   mount(root, { keys: document })   root holds the <video> and names its stream in data-master, data-storyboard,
//                                     data-hls-script, data-hls-worker; `keys` is where keys are listened for
import { captions as makeCaptions } from "./captions.js";
import { clock, element, icon, remember, remembered } from "./dom.js";
import { help as makeHelp, listen } from "./keys.js";
import { menu } from "./menu.js";
import { start } from "./playback.js";
import { preview } from "./storyboard.js";

const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2];
const HIDE_AFTER = 2500;

export const mount = (root, { keys = root, engine = "" } = {}) => {
  const video = root.querySelector("video");
  const { master, storyboard, hlsScript, hlsWorker } = root.dataset;
  const durationOf = () => (Number.isFinite(video.duration) ? video.duration : Number(root.dataset.duration) || 0);
  let playback = { name: "", levels: [], chosen: -1, choose() {}, stop() {} };

  // -- the parts ---------------------------------------------------------------------------------------------------

  const button = (name, shape, onclick) =>
    element("button", { type: "button", class: "vp-button", "aria-label": name, title: name, onclick }, icon(shape));
  const set = (control, name, shape) => {
    control.setAttribute("aria-label", name);
    control.title = name;
    control.replaceChildren(icon(shape));
  };
  const big = element("button", { type: "button", class: "vp-big", "aria-label": "Play", onclick: () => player.toggle() }, icon("play"));
  const play = button("Play", "play", () => player.toggle());
  const sound = button("Mute", "loud", () => player.mute());
  const volume = element("input", { type: "range", class: "vp-volume", min: "0", max: "1", step: "0.05", "aria-label": "Volume" });
  const time = element("span", { class: "vp-time" });
  const seek = element("input", { type: "range", class: "vp-seek", min: "0", max: "1", step: "0.1", value: "0", "aria-label": "Seek" });
  const full = button("Full screen", "grow", () => player.toggleFullscreen());
  const speed = menu("Speed", { onChoose: (value) => player.setSpeed(value) });
  const quality = menu("Quality", { onChoose: (value) => playback.choose(value) });
  const language = menu("Captions", { onChoose: (value) => captions.choose(captions.tracks[value] ?? null) });
  const toast = element("div", { class: "vp-toast", role: "status" });
  const trouble = element("p", { class: "vp-trouble", role: "alert", hidden: true });
  const captions = makeCaptions(video, { onChange: () => showLanguages() });
  const help = makeHelp();
  const bar = element("div", { class: "vp-seekbar" }, seek);
  bar.append(preview(bar, storyboard, durationOf));
  const controls = element(
    "div",
    { class: "vp-controls" },
    bar,
    element("div", { class: "vp-row" }, play, sound, volume, time, element("span", { class: "vp-space" }), language.root, speed.root, quality.root, full),
  );

  // -- what it can do ----------------------------------------------------------------------------------------------

  let toasted = 0;
  const say = (text) => {
    toast.textContent = text;
    clearTimeout(toasted);
    toasted = setTimeout(() => (toast.textContent = ""), 1200);
  };

  const player = {
    video,
    get playback() {
      return playback;
    },
    play: () => video.play().catch(() => {}), // a browser may want a click first; the big button stays
    toggle: () => (video.paused || video.ended ? player.play() : video.pause()),
    seek(to) {
      video.currentTime = Math.min(durationOf(), Math.max(0, to));
      awake();
    },
    seekPart: (part) => player.seek(part * durationOf()),
    skip(by) {
      player.seek(video.currentTime + by);
      say(`${by > 0 ? "+" : "−"}${Math.abs(by)} s`);
    },
    louder(by) {
      video.muted = false;
      video.volume = Math.min(1, Math.max(0, Math.round((video.volume + by) * 20) / 20));
      say(`Volume ${Math.round(video.volume * 100)} %`);
    },
    mute() {
      video.muted = !video.muted;
      say(video.muted ? "Muted" : "Sound on");
    },
    toggleCaptions: () => say(captions.toggle()),
    setSpeed(rate) {
      video.playbackRate = rate;
      remember("speed", String(rate));
    },
    changeSpeed(by) {
      const at = SPEEDS.findLastIndex((rate) => rate <= video.playbackRate);
      player.setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, at + by))]);
      say(`Speed ${video.playbackRate}×`);
    },
    toggleFullscreen() {
      if (document.fullscreenElement) document.exitFullscreen();
      else if (root.requestFullscreen) root.requestFullscreen().catch(() => {});
      else video.webkitEnterFullscreen?.();
    },
    toggleHelp: () => (help.open ? help.close() : help.showModal()),
    stop: () => playback.stop(),
  };

  // -- what it shows -----------------------------------------------------------------------------------------------

  const showTime = () => {
    const duration = durationOf();
    seek.max = String(duration || 1);
    if (!seek.matches(":active")) seek.value = String(video.currentTime);
    const at = Number(seek.value);
    const ahead = [...Array(video.buffered.length).keys()].map((n) => [video.buffered.start(n), video.buffered.end(n)]);
    const loaded = ahead.find(([from, to]) => from <= at + 0.5 && at <= to)?.[1] ?? at;
    bar.style.setProperty("--played", `${duration ? (100 * at) / duration : 0}%`);
    bar.style.setProperty("--loaded", `${duration ? (100 * loaded) / duration : 0}%`);
    time.textContent = `${clock(at)} / ${clock(duration)}`;
    seek.setAttribute("aria-valuetext", `${clock(at)} of ${clock(duration)}`);
  };
  const showState = () => {
    const [name, shape] = video.ended ? ["Play again", "replay"] : video.paused ? ["Play", "play"] : ["Pause", "pause"];
    set(play, name, shape);
    set(big, name, shape === "pause" ? "play" : shape);
    root.classList.toggle("is-playing", !video.paused && !video.ended);
    awake();
  };
  const showSound = () => {
    const silent = video.muted || video.volume === 0;
    set(sound, silent ? "Sound on" : "Mute", silent ? "muted" : "loud");
    volume.value = String(video.muted ? 0 : video.volume);
    volume.style.setProperty("--level", `${100 * Number(volume.value)}%`);
  };
  const showSpeed = () =>
    speed.show(SPEEDS.map((rate) => ({ value: rate, label: rate === 1 ? "Normal" : `${rate}×` })), video.playbackRate, `${video.playbackRate}×`);
  const showQualities = () => {
    const levels = playback.levels;
    const now = levels.find(({ index }) => index === playback.playing)?.label;
    const chosen = playback.chosen ?? -1;
    if (!levels.length) return quality.show([{ value: -1, label: "Auto (the browser chooses)" }], -1, "Auto");
    const auto = chosen === -1 && now ? `Auto (${now})` : "Auto";
    quality.show([{ value: -1, label: auto }, ...levels.map(({ index, label }) => ({ value: index, label }))], chosen, chosen === -1 ? "Auto" : (levels.find(({ index }) => index === chosen)?.label ?? "Auto"));
    root.dataset.quality = now ?? "";
  };
  const showLanguages = () => {
    language.root.hidden = !captions.tracks.length;
    language.root.classList.toggle("is-on", Boolean(captions.chosen));
    language.show(
      [{ value: -1, label: "Off" }, ...captions.tracks.map((track, index) => ({ value: index, label: track.label }))],
      captions.tracks.indexOf(captions.chosen),
      icon("captions"),
    );
  };
  const showTrouble = (text) => {
    trouble.textContent = text;
    trouble.hidden = !text;
  };

  // The controls go away while it plays and nobody moves.
  let resting = 0;
  const awake = () => {
    root.classList.remove("is-idle");
    clearTimeout(resting);
    resting = setTimeout(() => {
      const busy = speed.isOpen || quality.isOpen || language.isOpen || controls.matches(":has(:focus-visible)");
      if (!video.paused && !busy) root.classList.add("is-idle");
      else if (busy) awake();
    }, HIDE_AFTER);
  };

  // -- wiring ------------------------------------------------------------------------------------------------------

  video.controls = false;
  video.tabIndex = -1;
  root.classList.add("vp-player");
  root.append(captions.box, big, element("div", { class: "vp-spinner", "aria-hidden": "true" }), toast, trouble, controls, help);
  seek.addEventListener("input", () => {
    video.currentTime = Number(seek.value);
    showTime();
  });
  volume.addEventListener("input", () => {
    video.muted = false;
    video.volume = Number(volume.value);
  });
  for (const event of ["timeupdate", "durationchange", "progress", "seeking", "seeked"]) video.addEventListener(event, showTime);
  for (const event of ["play", "pause", "ended", "seeking"]) video.addEventListener(event, showState);
  for (const event of ["waiting", "stalled"]) video.addEventListener(event, () => root.classList.add("is-waiting"));
  for (const event of ["playing", "canplay", "pause", "seeked"]) video.addEventListener(event, () => root.classList.remove("is-waiting"));
  video.addEventListener("ratechange", showSpeed);
  video.addEventListener("play", () => root.classList.add("is-started"), { once: true });
  video.addEventListener("volumechange", () => {
    showSound();
    remember("volume", String(video.volume));
  });
  video.addEventListener("click", () => {
    const hidden = root.classList.contains("is-idle");
    awake();
    if (matchMedia("(hover: hover)").matches || !hidden) player.toggle(); // a first tap shows the controls
  });
  video.addEventListener("dblclick", () => player.toggleFullscreen());
  for (const event of ["pointermove", "pointerdown", "keydown", "focusin"]) root.addEventListener(event, awake);
  document.addEventListener("fullscreenchange", () => {
    const inside = document.fullscreenElement === root;
    set(full, inside ? "Leave full screen" : "Full screen", inside ? "shrink" : "grow");
  });
  listen(keys, player);

  video.volume = Number(remembered("volume") ?? 1) || 1;
  video.defaultPlaybackRate = video.playbackRate = SPEEDS.find((rate) => String(rate) === remembered("speed")) ?? 1;
  captions.restore();
  showTime();
  showState();
  showSound();
  showSpeed();
  showQualities();
  player.ready = start(video, { master, hlsScript, hlsWorker, engine, onLevels: () => showQualities(), onTrouble: showTrouble }).then((started) => {
    playback = started;
    root.dataset.engine = started.name;
    showQualities();
    return player;
  });
  return player;
};
