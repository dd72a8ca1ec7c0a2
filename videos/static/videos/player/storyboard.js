// The pictures above the seek bar: storyboard.vtt says which part of which sheet belongs to which time.
import { clock, element } from "./dom.js";

const CUE = /([\d:.]+) --> ([\d:.]+)[^\n]*\n([^\n#]+)#xywh=(\d+),(\d+),(\d+),(\d+)/g;

const seconds = (text) => text.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);

export const parse = (text, base) =>
  [...text.replaceAll("\r\n", "\n").matchAll(CUE)].map(([, from, to, sheet, x, y, width, height]) => ({
    from: seconds(from),
    to: seconds(to),
    sheet: new URL(sheet.trim(), base).href,
    x: Number(x),
    y: Number(y),
    width: Number(width),
    height: Number(height),
  }));

// A small window that follows the pointer along the seek bar; without pictures it tells the time alone.
export const preview = (bar, address, durationOf) => {
  const picture = element("div", { class: "vp-preview-picture", hidden: true });
  const time = element("div", { class: "vp-preview-time" });
  const shown = element("div", { class: "vp-preview", hidden: true, "aria-hidden": "true" }, picture, time);
  let tiles = null;
  let last = null;

  const fetchTiles = async () => {
    tiles = [];
    try {
      const answer = await fetch(address);
      if (answer.ok) tiles = parse(await answer.text(), new URL(address, location.href));
    } catch {
      // Then there are no pictures.
    }
    if (!shown.hidden) show(last);
  };

  const show = (event) => {
    last = event;
    const duration = durationOf();
    if (!duration) return;
    if (address && tiles === null) fetchTiles();
    const box = bar.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const at = part * duration;
    const tile = tiles?.findLast((one) => one.from <= at);
    picture.hidden = !tile;
    if (tile) {
      picture.style.width = `${tile.width}px`;
      picture.style.height = `${tile.height}px`;
      picture.style.backgroundImage = `url("${tile.sheet}")`;
      picture.style.backgroundPosition = `-${tile.x}px -${tile.y}px`;
    }
    time.textContent = clock(at);
    shown.hidden = false;
    const half = shown.offsetWidth / 2;
    shown.style.left = `${Math.min(box.width - half, Math.max(half, part * box.width))}px`;
  };

  bar.addEventListener("pointermove", show);
  bar.addEventListener("pointerdown", show);
  for (const end of ["pointerleave", "pointercancel"]) bar.addEventListener(end, () => (shown.hidden = true));
  return shown;
};
