// A button that opens a list of choices, for pointers, fingers and keys alike.
import { element } from "./dom.js";

export const menu = (name, { onChoose }) => {
  const face = element("span", { class: "vp-menu-face" });
  const list = element("div", { class: "vp-menu-list", role: "menu", "aria-label": name, hidden: true });
  const button = element(
    "button",
    { type: "button", class: "vp-button", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": name, title: name },
    face,
  );
  const root = element("div", { class: "vp-menu" }, button, list);
  const items = () => [...list.querySelectorAll("button")];

  const open = () => {
    list.hidden = false;
    button.setAttribute("aria-expanded", "true");
    (list.querySelector('[aria-checked="true"]') ?? items()[0])?.focus();
  };
  const close = ({ focus = true } = {}) => {
    if (list.hidden) return;
    list.hidden = true;
    button.setAttribute("aria-expanded", "false");
    if (focus) button.focus();
  };

  button.addEventListener("click", () => (list.hidden ? open() : close()));
  document.addEventListener("pointerdown", (event) => root.contains(event.target) || close({ focus: false }));
  root.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !root.contains(event.relatedTarget)) close({ focus: false });
  });
  list.addEventListener("keydown", (event) => {
    const all = items();
    const here = all.indexOf(document.activeElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) all[to % all.length].focus();
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  return {
    root,
    get isOpen() {
      return !list.hidden;
    },
    // choices: [{ value, label }]
    show(choices, chosen, text) {
      face.replaceChildren(text);
      const at = items().indexOf(document.activeElement);
      list.replaceChildren(
        ...choices.map(({ value, label }) =>
          element(
            "button",
            {
              type: "button",
              role: "menuitemradio",
              "aria-checked": String(value === chosen),
              onclick: () => {
                close();
                onChoose(value);
              },
            },
            label,
          ),
        ),
      );
      if (at >= 0) items()[at]?.focus();
    },
  };
};
