// Elements from values. Text only ever becomes text: there is no way from here to markup.

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Makes the children of an element like `items`. What has not changed stays: it may be selected,
// focused, or about to be clicked.
export function update(parent, items) {
  items.forEach((item, index) => {
    const old = parent.children[index];
    if (old === undefined) parent.append(item);
    else morph(old, item);
  });
  while (parent.children.length > items.length) parent.lastElementChild.remove();
}

const onlyElements = (element) =>
  element.children.length > 0 && element.children.length === element.childNodes.length;

function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const alike =
    old.tagName === fresh.tagName &&
    old.getAttribute("href") === fresh.getAttribute("href") &&
    onlyElements(old) &&
    onlyElements(fresh) &&
    old.children.length === fresh.children.length;
  if (!alike) {
    old.replaceWith(fresh);
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
  const replacements = [...fresh.children];
  [...old.children].forEach((child, index) => morph(child, replacements[index]));
}

export function say(element, text) {
  element.textContent = text;
  element.hidden = !text;
}
