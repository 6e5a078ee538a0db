// The quiz: who chooses an option and presses Check reads, under the question, whether it is right and why. The words are a copy
// of what stands in the answers at the end of the page. Nothing is stored: a page that is loaded again has forgotten all.
(() => {
  "use strict";
  const forms = [...document.querySelectorAll("form.quiz-question")];
  const score = { right: 0, first: 0 };
  let line = null;

  const answerTo = (form) => [
    ...document.querySelectorAll(`#${form.id.replace("quiz-", "answer-")} .quiz-whys > li`),
  ];

  const copyOf = (item) => {
    const copy = document.createElement("div");
    copy.append(...[...item.childNodes].map((part) => part.cloneNode(true)));
    for (const one of copy.querySelectorAll("[id]")) one.removeAttribute("id");
    return copy;
  };

  const tell = () => {
    if (!line) {
      line = document.createElement("p");
      line.className = "quiz-score";
      forms.at(-1).after(line);
    }
    line.textContent = `Answered right: ${score.right} of ${forms.length}, ${score.first} of them at the first try.`;
  };

  const check = (form) => {
    const inputs = [...form.querySelectorAll("input[type=radio]")];
    const says = form.querySelector(".quiz-says");
    const chosen = inputs.findIndex((one) => one.checked);
    if (chosen < 0) {
      says.className = "quiz-says";
      says.textContent = "Choose one of the options first.";
      return;
    }
    const item = answerTo(form)[chosen];
    const right = item.classList.contains("is-right");
    const option = inputs[chosen].parentElement;
    option.classList.add(right ? "is-right" : "is-wrong");
    option.querySelector(".quiz-mark").textContent = right ? "✓ right" : "✗ not so";
    says.className = `quiz-says ${right ? "is-right" : "is-wrong"}`;
    says.replaceChildren(copyOf(item));
    if (right && !form.dataset.done) {
      form.dataset.done = "yes";
      score.right += 1;
      if (!form.querySelector(".is-wrong")) score.first += 1;
      tell();
    }
  };

  for (const form of forms) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      check(form);
    });
  }
})();
