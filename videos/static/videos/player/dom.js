// Small helpers to build elements. Texts are set as text, never as HTML.

export const element = (tag, properties = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
};

// Drawn in a square of 24.
const SHAPES = {
  play: "M7 4.5v15l13-7.5z",
  pause: "M6 4.5h4.4v15H6zM13.6 4.5H18v15h-4.4z",
  replay: "M12 4a8 8 0 1 1-7.75 10h2.1A6 6 0 1 0 12 6v3.4L7.2 5.2 12 1z",
  loud: "M3 9v6h4l5.5 4.6V4.4L7 9zM15 8.2a4.5 4.5 0 0 1 0 7.6zM15 4.2a8.2 8.2 0 0 1 0 15.6v-2.1a6.2 6.2 0 0 0 0-11.4z",
  muted: "M3 9v6h4l5.5 4.6V4.4L7 9zM21 9.4 19.6 8l-2.3 2.3L15 8l-1.4 1.4 2.3 2.6-2.3 2.6L15 16l2.3-2.3 2.3 2.3 1.4-1.4-2.3-2.6z",
  captions: "M4 5h16a1.5 1.5 0 0 1 1.5 1.5v11A1.5 1.5 0 0 1 20 19H4a1.5 1.5 0 0 1-1.5-1.5v-11A1.5 1.5 0 0 1 4 5zm3.8 4.2c-1.6 0-2.7 1.2-2.7 2.8s1.1 2.8 2.7 2.8c1.2 0 2.1-.6 2.5-1.6l-1.5-.6c-.2.4-.5.6-1 .6-.6 0-1-.5-1-1.2s.4-1.2 1-1.2c.5 0 .8.2 1 .6l1.5-.6c-.4-1-1.3-1.6-2.5-1.6zm8 0c-1.6 0-2.7 1.2-2.7 2.8s1.1 2.8 2.7 2.8c1.2 0 2.1-.6 2.5-1.6l-1.5-.6c-.2.4-.5.6-1 .6-.6 0-1-.5-1-1.2s.4-1.2 1-1.2c.5 0 .8.2 1 .6l1.5-.6c-.4-1-1.3-1.6-2.5-1.6z",
  grow: "M4 4h6v2H6v4H4zM14 4h6v6h-2V6h-4zM4 14h2v4h4v2H4zM18 14h2v6h-6v-2h4z",
  shrink: "M8 4h2v6H4V8h4zM14 4h2v4h4v2h-6zM4 14h6v6H8v-4H4zM14 14h6v2h-4v4h-2z",
};

export const icon = (name) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", SHAPES[name]);
  path.setAttribute("fill", "currentColor");
  svg.append(path);
  return svg;
};

export const clock = (seconds) => {
  const whole = Math.max(0, Math.floor(Number.isFinite(seconds) ? seconds : 0));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
};

// What a person has chosen, kept for the next video; a browser may refuse to keep anything.
export const remembered = (name) => {
  try {
    return localStorage.getItem(`sprocket.${name}`);
  } catch {
    return null;
  }
};

export const remember = (name, value) => {
  try {
    localStorage.setItem(`sprocket.${name}`, value);
  } catch {
    // Then it is forgotten.
  }
};
