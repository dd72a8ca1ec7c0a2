// A form is sent once, however often its button is clicked; one that is marked sends itself.
"use strict";

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-once]")) return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
  // Not before the form has been read: a disabled button is no part of it.
  setTimeout(() => event.target.querySelectorAll("button").forEach((button) => { button.disabled = true; }));
});

addEventListener("pageshow", (event) => {
  if (!event.persisted) return; // back from another page: the form may be sent again
  document.querySelectorAll("form[data-sent]").forEach((form) => {
    delete form.dataset.sent;
    form.querySelectorAll("button").forEach((button) => { button.disabled = false; });
  });
});

document.addEventListener("DOMContentLoaded", () => {
  document.querySelector("form[data-sends-itself]")?.requestSubmit();
  document.querySelectorAll("[data-copy]").forEach((button) => {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent.trim());
      button.textContent = "Copied";
    });
  });
});
