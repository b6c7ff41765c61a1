"""The boxes of all text of a page, compared with the window, with the elements that clip them, and with each other."""

# Letters have a height of about two thirds of the box that a browser gives them; boxes are compared without the rest.
_FIND = """const boxesOfText = () => {
    const found = [], shown = node => node.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true});
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = node.textContent.trim(), one = node.parentElement;
      if (!text || one.closest('title,script,style,noscript') || !shown(one)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects())
        if (box.width > 1 && box.height > 1) found.push({node, one, text: text.slice(0, 40), box,
          left: box.left + scrollX, right: box.right + scrollX, top: box.top + scrollY, bottom: box.bottom + scrollY});
    }
    return found;
  };
  const name = one => `${one.one.tagName}.${one.one.getAttribute('class') ?? ''} "${one.text}"`;
  const place = one => `${Math.round(one.left)}..${Math.round(one.right)} x ${Math.round(one.top)}..${Math.round(one.bottom)}`;
  const findWrong = () => {
    const width = document.documentElement.clientWidth, all = boxesOfText();
    const clipped = [], overlapping = [], small = [];
    for (const one of all) {
      if (one.left < -1 || one.right > width + 1) clipped.push(`${name(one)} at ${place(one)} in a window of ${width}`);
      if (one.box.height < 8) small.push(`${name(one)} is ${one.box.height.toFixed(1)} px high`);
      for (let cut = one.one; cut && cut !== document.body; cut = cut.parentElement) {
        const svg = cut.tagName === 'svg';
        const style = getComputedStyle(cut);
        const scrolls = /auto|scroll/.test(style.overflowY) && !/auto|scroll/.test(style.overflowX);
        if (!svg && style.overflowX === 'visible') continue;
        const edge = cut.getBoundingClientRect();
        const across = one.box.left < edge.left - 1 || one.box.right > edge.right + 1;
        // A text to copy may be moved up and down.
        const down = cut.tagName !== 'PRE' && !scrolls
          && (one.box.top + one.box.height / 6 < edge.top - 1 || one.box.bottom - one.box.height / 6 > edge.bottom + 1);
        if (across || down)
          clipped.push(`${name(one)} at ${place(one)} is cut by ${cut.tagName}.${cut.getAttribute('class') ?? ''}`);
        if (cut.tagName === 'PRE') break;
      }
    }
    const inPre = one => one.one.closest('pre');
    const sorted = all.filter(one => !inPre(one)).sort((a, b) => a.top - b.top);
    for (let i = 0; i < sorted.length; i++) {
      const a = sorted[i], aRoom = (a.bottom - a.top) / 6;
      for (let j = i + 1; j < sorted.length && sorted[j].top < a.bottom; j++) {
        const b = sorted[j], bRoom = (b.bottom - b.top) / 6;
        if (a.node === b.node) continue;
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
            && Math.min(a.bottom - aRoom, b.bottom - bRoom) - Math.max(a.top + aRoom, b.top + bRoom) > 0.5)
          overlapping.push(`${name(a)} at ${place(a)} and ${name(b)} at ${place(b)}`);
      }
    }
    return {texts: all.length, clipped, overlapping, small};
  };"""

# Returns the number of texts, and those that are clipped, overlap each other, or are too small to read.
WRONG = """(() => {
  %s
  const found = findWrong(), few = list => list.slice(0, 12);
  return {texts: found.texts, clipped: found.clipped.length, overlapping: found.overlapping.length, small: found.small.length,
    examples: [...few(found.clipped), ...few(found.overlapping), ...few(found.small)],
    width: document.documentElement.clientWidth, scroll: document.documentElement.scrollWidth,
    height: document.documentElement.scrollHeight};
})()""" % _FIND

# Whether a clipped label of a drawing, two texts over each other, and a text too small to read are found where they are
# planted.
PLANTED = """(() => {
  %s
  const before = findWrong();
  document.body.insertAdjacentHTML('beforeend', `<div id="planted" style="position:relative;height:60px">
    <svg viewBox="0 0 100 20" style="width:200px"><text x="90" y="15" style="font:12px sans-serif">reaches over the edge</text></svg>
    <p style="position:absolute;left:0;top:30px;margin:0">one</p><p style="position:absolute;left:4px;top:32px;margin:0">two</p>
    <p style="font-size:4px;position:absolute;left:300px;top:30px">small</p></div>`);
  const after = findWrong();
  document.getElementById('planted').remove();
  return ['clipped', 'overlapping', 'small'].filter(kind => after[kind].length === before[kind].length);
})()""" % _FIND

# Opens all folds.
UNFOLD = "document.querySelectorAll('details').forEach(one => { one.open = true; })"

# Elements whose colour says something and that paper would show without it.
COLOURLESS = """[...document.querySelectorAll('.meter i, .key, rect.dot, circle.dot')].slice(0, 2000)
  .filter(one => getComputedStyle(one).printColorAdjust !== 'exact').length"""
