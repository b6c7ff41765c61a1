"""What a test asks a page about itself, in the page's own language. Each is one expression."""

# The first screen: its tiles, its sentences, and how wide it is.
FIRST_SCREEN = """(() => {
  const text = (one, of) => one.querySelector(of)?.innerText.trim() ?? '';
  const tiles = [...document.querySelectorAll('.tile')].map(tile => ({
    title: tile.querySelector('h2').firstChild.textContent.trim(),
    word: text(tile, '.word'), value: text(tile, '.value'), standing: text(tile, 'summary'),
    spread: text(tile, '.spread'), reason: text(tile, '.share'), of: text(tile, '.of'),
    bottom: Math.round(tile.getBoundingClientRect().bottom)}));
  const sentences = document.querySelector('.sentences');
  return {
    width: document.documentElement.clientWidth, scroll: document.documentElement.scrollWidth, tiles,
    runs: [...document.querySelectorAll('.runs li')].map(line => line.innerText),
    sentences: [...sentences.children].map(line => line.innerText),
    ends: Math.round(sentences.getBoundingClientRect().bottom),
    paper: getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)};
})()"""

_FIND_CLIPPED = """const clipped = () => {
    const width = document.documentElement.clientWidth, found = [];
    for (const one of document.querySelectorAll('body *')) {
      if (one.closest('svg') && one.tagName !== 'svg') continue;
      const box = one.getBoundingClientRect();
      const name = `${one.tagName}.${one.getAttribute('class') ?? ''} "${one.textContent.slice(0, 50)}"`;
      if (box.width && (box.right > width + 1 || box.left < -1)) found.push(`${name} from ${box.left} to ${box.right}`);
      const hides = getComputedStyle(one).overflowX !== 'visible';
      if (hides && one.clientWidth && one.scrollWidth > one.clientWidth + 1)
        found.push(`${name} shows ${one.clientWidth} of ${one.scrollWidth} px`);
    }
    return found;
  };"""

# What reaches over the window's edge or is cut by a box.
CLIPPED = """(() => {
  %s
  const found = clipped();
  return {clipped: found.slice(0, 10), count: found.length,
    width: document.documentElement.clientWidth, scroll: document.documentElement.scrollWidth,
    tables: document.querySelectorAll('table').length, drawings: document.querySelectorAll('svg').length};
})()""" % _FIND_CLIPPED

# Whether a table that is too wide, in a box that scrolls, is seen as clipped.
PLANTED = """(() => {
  %s
  document.querySelector('.wide').innerHTML = '<table><tr><td style="min-width:3000px">wide</td></tr></table>';
  return clipped().length > 0;
})()""" % _FIND_CLIPPED

# By benchmark its panels: the axis, what each line is, and the names at the lines' ends. Of a benchmark without curves an empty list.
LINES = """(() => {
  const found = {};
  for (const heading of document.querySelectorAll('h3[id]')) {
    const panels = [];
    for (let one = heading.nextElementSibling; one && one.tagName !== 'H3'; one = one.nextElementSibling)
      for (const panel of one.querySelectorAll('.panel'))
        panels.push({axis: panel.querySelector('.name').textContent,
          lines: [...panel.querySelectorAll('path.line title')].map(title => title.textContent),
          names: [...panel.querySelectorAll('text.end')].map(name => name.textContent.replace('\\u2026', ''))});
    found[heading.id] = panels;
  }
  return found;
})()"""

# By question the runs that have a line in it.
QUESTIONS = """(() => {
  const found = {};
  for (const section of document.querySelectorAll('.question:has(.panel)')) {
    const asked = section.querySelector('h2').innerText;
    const labels = [...section.querySelectorAll('.answers .key')].map(key => key.innerText.trim());
    const lines = [...section.querySelectorAll('path.line title')].map(title => title.textContent.split(':')[0]);
    found[asked] = labels.filter(label => lines.includes(label));
  }
  return found;
})()"""

# Drawings of figures that are not followed by text to copy.
WITHOUT_TEXT = """[...document.querySelectorAll('.panels')]
  .filter(panels => !(panels.closest('.question') ?? panels.parentElement).querySelector('pre'))
  .map(panels => panels.innerText.slice(0, 50))"""

# What a click into the text of a benchmark's figures selects, in a browser that lets it be selected as a whole.
SELECTED = """(() => {
  document.querySelectorAll('details').forEach(one => one.open = true);
  let one = document.getElementById('bandwidth.read');
  while (!one.querySelector('pre')) one = one.nextElementSibling;
  const pre = one.querySelector('pre');
  if (getComputedStyle(pre).userSelect !== 'all') return 'a click selects a word of it';
  getSelection().selectAllChildren(pre);
  return getSelection().toString();
})()"""

# The ratios in their order.
RATIOS = """[...document.querySelectorAll('.ratios tr')].map(row => ({
  key: row.cells[0].innerText, ratio: row.cells[2].innerText,
  verdict: row.querySelector('circle').getAttribute('class').replace('ratio ', '')}))"""

# Of each chart of stacked bars: the names of the bars, and how long each is.
STACKS = """[...document.querySelectorAll('figure.stack svg')].map(svg => {
  const bars = new Map();
  for (const part of svg.querySelectorAll('rect')) {
    const name = part.querySelector('title').textContent.split(': ')[0];
    bars.set(name, (bars.get(name) ?? 0) + part.width.baseVal.value);
  }
  return {names: [...bars.keys()], lengths: [...bars.values()]};
})"""
