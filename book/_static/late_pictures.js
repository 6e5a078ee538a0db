// Pictures marked lazy do not hold up the page. Once it is there they load without waiting for the reader to come near:
// a page that is printed, or read on after the connection is lost, has all its pictures.
window.addEventListener("load", () => {
  "use strict";
  document.querySelectorAll("img[loading='lazy']").forEach((picture) => {
    picture.loading = "eager";
  });
});
