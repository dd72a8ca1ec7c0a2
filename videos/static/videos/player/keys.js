// What each key does. "?" shows this list.
import { element } from "./dom.js";

export const KEYS = [
  [[" ", "k"], "Space or K", "play or pause", (player) => player.toggle()],
  [["ArrowLeft"], "←", "5 seconds back", (player) => player.skip(-5)],
  [["ArrowRight"], "→", "5 seconds on", (player) => player.skip(5)],
  [["j"], "J", "10 seconds back", (player) => player.skip(-10)],
  [["l"], "L", "10 seconds on", (player) => player.skip(10)],
  [["ArrowUp"], "↑", "louder", (player) => player.louder(0.1)],
  [["ArrowDown"], "↓", "softer", (player) => player.louder(-0.1)],
  [["m"], "M", "mute", (player) => player.mute()],
  [["c"], "C", "captions on or off", (player) => player.toggleCaptions()],
  [["f"], "F", "full screen", (player) => player.toggleFullscreen()],
  [["<"], "<", "slower", (player) => player.changeSpeed(-1)],
  [[">"], ">", "faster", (player) => player.changeSpeed(1)],
  [[..."0123456789"], "0 – 9", "to that tenth of the video", (player, key) => player.seekPart(Number(key) / 10)],
  [["Home"], "Home", "to the start", (player) => player.seekPart(0)],
  [["End"], "End", "to the end", (player) => player.seekPart(1)],
  [["?"], "?", "this list", (player) => player.toggleHelp()],
];

const TYPED_INTO = "input:not([type=range]), textarea, select, [contenteditable]";

// Keys that a focused control needs for itself.
const isNeededBy = (target, key) =>
  (target.closest?.("button, a, summary, [role=menu]") && [" ", "Enter"].includes(key)) ||
  (target.matches?.("input[type=range]") && key.startsWith("Arrow")) ||
  (target.matches?.("input[type=range]") && ["Home", "End"].includes(key)) ||
  target.closest?.("[role=menu]");

export const listen = (scope, player) =>
  scope.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (event.target.closest?.(TYPED_INTO) || isNeededBy(event.target, event.key)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const found = KEYS.find(([keys]) => keys.includes(key));
    if (!found) return;
    event.preventDefault();
    found[3](player, key);
  });

export const help = () =>
  element(
    "dialog",
    { class: "vp-help", "aria-label": "Keys" },
    element("h2", {}, "Keys"),
    element("dl", {}, ...KEYS.flatMap(([, shown, what]) => [element("dt", {}, element("kbd", {}, shown)), element("dd", {}, what)])),
    element("form", { method: "dialog" }, element("button", { class: "vp-close" }, "Close")),
  );
