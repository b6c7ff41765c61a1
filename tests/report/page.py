"""Queries of a page, in JavaScript. Each is one expression."""

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

# For each benchmark its panels: the axis, the meaning of each line, and the names at the lines' ends. For a benchmark
# without curves an empty list.
LINES = """(() => {
  const found = {};
  for (const heading of document.querySelectorAll('h3[id]')) {
    const panels = [];
    for (const panel of heading.closest('.benchmark').querySelectorAll('.panel'))
      panels.push({axis: panel.querySelector('.name').textContent,
        lines: [...panel.querySelectorAll('path.line title')].map(title => title.textContent),
        names: [...panel.querySelectorAll('text.end')].map(name => name.textContent)});
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

# The text that a click into a benchmark's figures selects, in a browser that supports selecting it as a whole.
SELECTED = """(() => {
  document.querySelectorAll('details').forEach(one => one.open = true);
  const pre = document.getElementById('bandwidth.read').closest('.benchmark').querySelector('pre');
  if (getComputedStyle(pre).userSelect !== 'all') return 'a click selects a word of it';
  getSelection().selectAllChildren(pre);
  return getSelection().toString();
})()"""

# The ratios in their order.
RATIOS = """[...document.querySelectorAll('.ratios tr')].map(row => ({
  key: row.cells[0].innerText, ratio: row.cells[2].innerText,
  verdict: row.querySelector('circle').getAttribute('class').replace('ratio ', '')}))"""

# For each chart of stacked bars the names of the bars, and how long each is.
STACKS = """[...document.querySelectorAll('figure.stack svg')].map(svg => {
  const bars = new Map();
  for (const part of svg.querySelectorAll('rect')) {
    const name = part.querySelector('title').textContent.split(': ')[0];
    bars.set(name, (bars.get(name) ?? 0) + part.width.baseVal.value);
  }
  return {names: [...bars.keys()], lengths: [...bars.values()]};
})"""

# Mean waiting by trace and system, in nanoseconds, from the text to copy.
WAITING = """[...document.querySelectorAll('.stacks.mean pre')].flatMap(pre => {
  const [heading, ...lines] = pre.textContent.split('\\n').map(line => line.split('\\t'));
  return lines.map(line => Number(line[heading.indexOf('waiting')]));
})"""

# The middle of a panel, where it is in the window.
PANEL = """(() => {
  const svg = document.querySelector('#q-latency .panel svg');
  svg.scrollIntoView({block: 'center'});
  const box = svg.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
})()"""

# The times in the last column of a table after a click on its heading, in nanoseconds.
ORDERED = """(() => {
  const fold = document.querySelector('#q-latency .figures'), scale = {ns: 1, us: 1e3, ms: 1e6};
  fold.open = true;
  [...fold.querySelectorAll('th button')].at(-1).click();
  return [...fold.querySelectorAll('tbody tr')].map(row => row.cells[row.cells.length - 1].innerText.split(' '))
    .map(([value, unit]) => value * scale[unit]);
})()"""

# The number of rows of a table that a filter word keeps, and of all.
FILTERED = """(() => {
  const fold = document.querySelector('#q-latency .figures'), filter = fold.querySelector('input');
  filter.value = 'read';
  filter.dispatchEvent(new Event('input'));
  const rows = [...fold.querySelectorAll('tbody tr')];
  return [rows.filter(row => row.checkVisibility()).length, rows.length];
})()"""

# All readable content of a page: its text, folds opened, and the number of its drawings and of its controls.
READ = """(() => {
  document.querySelectorAll('details').forEach(one => { one.open = true; });
  const own = document.body.cloneNode(true);
  own.querySelectorAll('script, .readout, .filter, .unfold').forEach(one => one.remove());
  return {text: own.textContent.replace(/\\s+/g, ' ').trim(), drawings: document.querySelectorAll('svg').length,
    titles: document.querySelectorAll('svg title').length, controls: document.querySelectorAll('button, input').length};
})()"""
