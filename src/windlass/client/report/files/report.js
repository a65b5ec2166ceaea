'use strict';
const byId = (id) => document.getElementById(id);
const element = (name, className = '', text = '') => {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
};
const clamp = (value, low, high) => Math.max(low, Math.min(value, high));
const report = JSON.parse(byId('data').textContent);
const logs = JSON.parse(byId('log-index').textContent);
const MARKS = { Succeeded: '✓', Failed: '✗', Ended: '■', Running: '▶', Pending: '○', Stopping: '◐', Retrying: '↻' };
const ROW = 18;
const MAX_HEIGHT = 4e6; // browsers limit the height of an element
const MAX_TEXT = 2000;
const MAX_OPTIONS = 500; // further logs are opened from the timeline

// A scrolled list of any length. Only the visible rows are elements. `top` is the number of the first visible row.
class List {
  constructor(box, draw) {
    this.box = box;
    this.draw = draw;
    this.count = this.top = 0;
    this.space = box.appendChild(element('div'));
    this.rows = this.space.appendChild(element('div', 'rows'));
    box.tabIndex = 0;
    box.addEventListener('scroll', () => this.scrolled());
    box.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    box.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.go(this.top)).observe(box);
  }
  get visible() { return this.box.clientHeight / ROW; }
  get last() { return Math.max(0, this.count - Math.floor(this.visible)); }
  get range() { return Math.max(1, this.space.clientHeight - this.box.clientHeight); }
  show(count, top = 0) {
    this.count = count;
    this.space.style.height = `${Math.min(count * ROW, MAX_HEIGHT)}px`;
    this.box.style.height = `${clamp(count + 1, 3, 24) * ROW}px`; // one more for a horizontal scroll bar
    this.go(top);
  }
  go(top) {
    this.top = clamp(top, 0, this.last);
    this.box.scrollTop = this.last ? (this.top / this.last) * this.range : 0;
    this.own = this.box.scrollTop;
    this.paint();
  }
  reveal(row) {
    if (row < this.top || row > this.top + this.visible - 1) this.go(row - this.visible / 2);
    else this.paint();
  }
  scrolled() {
    if (Math.abs(this.box.scrollTop - this.own) >= 1) this.top = (this.box.scrollTop / this.range) * this.last;
    this.own = this.box.scrollTop;
    this.paint();
  }
  wheel(event) { // with a scaled scroll bar, one pixel is many rows
    const isScaled = this.count * ROW > MAX_HEIGHT;
    if (!isScaled || event.ctrlKey || !event.deltaY) return;
    event.preventDefault();
    this.go(this.top + event.deltaY / (event.deltaMode ? 1 : ROW));
  }
  key(event) {
    const page = Math.max(1, Math.floor(this.visible) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count };
    if (event.defaultPrevented || !(event.key in moves)) return;
    event.preventDefault();
    this.go(this.top + moves[event.key]);
  }
  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.rows.style.height = `${Math.min(this.box.clientHeight, this.space.clientHeight)}px`;
      const first = Math.floor(this.top);
      const end = Math.min(this.count, first + Math.ceil(this.visible) + 1);
      const rows = [];
      for (let at = first; at < end; at++) {
        const row = this.draw(at);
        row.classList.add('row');
        row.style.top = `${(at - this.top) * ROW}px`;
        rows.push(row);
      }
      this.rows.replaceChildren(...rows);
    });
  }
}

// Timeline

const generated = Date.parse(report.generated);
const lanes = new Map();
for (const attempt of report.tasks) {
  attempt.name = `${attempt.role}-${attempt.index}`;
  attempt.times = attempt.phases.map((phase) => Date.parse(phase.since));
  attempt.begin = Math.min(...attempt.times);
  const isOver = !['Running', 'Pending', 'Stopping'].includes(attempt.state);
  attempt.end = attempt.ended ? Date.parse(attempt.ended) : isOver ? Math.max(...attempt.times) : generated;
  if (!lanes.has(attempt.name)) lanes.set(attempt.name, []);
  lanes.get(attempt.name).push(attempt);
}
const firstTime = report.tasks.reduce((least, each) => Math.min(least, each.begin), Infinity);
const lastTime = report.tasks.reduce((most, each) => Math.max(most, each.end), firstTime + 1000);
let from = firstTime, to = lastTime, shown = [], lane = 0, chosen = null;
const utc = (time, end = 19) => (Number.isFinite(time) ? new Date(time).toISOString().slice(11, end) : '');
const seconds = (time) => `${Math.round(time / 100) / 10} s`;
const percent = (time) => ((time - from) / (to - from)) * 100;

const tasks = new List(byId('tasks'), (at) => {
  const attempts = shown[at];
  const row = element('div', at === lane ? 'lane chosen' : 'lane');
  row.append(element('span', 'name', `${MARKS[attempts.at(-1).state] || '?'} ${attempts[0].name}`));
  const track = row.appendChild(element('span', 'track'));
  let right = -1;
  for (const each of attempts) {
    const [left, end] = [percent(each.begin), percent(each.end)];
    if (end < 0 || left > 100 || end < right + 0.1) continue; // outside, or narrower than a pixel beside another bar
    track.append(bar(each, left, end));
    right = end;
  }
  return row;
});

function bar(attempt, left, end) {
  const isFailed = attempt.state === 'Failed';
  const made = element('span', isFailed ? 'try failed' : 'try');
  made.style.left = `${left}%`;
  made.style.width = `${end - left}%`;
  made.title = summary(attempt);
  const length = Math.max(1, attempt.end - attempt.begin);
  attempt.phases.forEach((phase, at) => {
    const part = made.appendChild(element('i', phase.state));
    const until = attempt.times[at + 1] ?? attempt.end;
    part.style.left = `${((attempt.times[at] - attempt.begin) / length) * 100}%`;
    part.style.width = `${((until - attempt.times[at]) / length) * 100}%`;
    if (isFailed) part.style.opacity = '.6';
  });
  if (end - left > 1.5) made.append(element('b', '', MARKS[attempt.state] || ''));
  made.addEventListener('click', () => choose(shown.findIndex((each) => each.includes(attempt)), attempt));
  return made;
}

function summary(attempt) {
  const code = attempt.code === undefined ? '' : `, code ${attempt.code}`;
  const phases = attempt.phases.map((phase, at) => {
    const until = attempt.times[at + 1] ?? attempt.end;
    return `${phase.state} from ${utc(attempt.times[at])} for ${seconds(until - attempt.times[at])}`;
  });
  const retry = attempt.isRetried === undefined ? '' : ` ${attempt.isRetried ? 'Retried' : 'Not retried'}: ${attempt.retryReason || ''}.`;
  return `${attempt.name}, attempt ${attempt.attempt} in attempt ${attempt.jobAttempt} of the job: ${attempt.state}${code}. ` +
    `${attempt.class ? `${attempt.class}: ` : ''}${attempt.reason ? `${attempt.reason}. ` : ''}` +
    `${phases.join(', ')}. ${attempt.node ? `Node ${attempt.node}, pod ${attempt.pod}.` : ''}${retry}`;
}

function choose(at, attempt) {
  lane = clamp(at, 0, Math.max(0, shown.length - 1));
  chosen = attempt || (shown[lane] || []).at(-1) || null;
  const detail = byId('detail');
  detail.textContent = chosen ? summary(chosen) : '';
  const own = chosen ? logsOf(chosen) : [];
  if (own.length) {
    const open = detail.appendChild(element('button', '', 'Show log'));
    open.addEventListener('click', () => { openLog(own[0]); byId('logs').scrollIntoView(); });
  }
  tasks.reveal(lane);
}

function filter() {
  const role = byId('role').value, outcome = byId('outcome').value, text = byId('task').value.trim();
  shown = [...lanes.values()].filter((attempts) =>
    (!role || attempts[0].role === role) &&
    (!outcome || attempts.some((each) => each.state === outcome)) && attempts[0].name.includes(text));
  byId('count').textContent = `${shown.length} of ${lanes.size} tasks`;
  tasks.show(shown.length);
  choose(0);
}

function zoom(factor, shift = 0) {
  const length = clamp((to - from) * factor, 100, lastTime - firstTime);
  const start = (from + to) / 2 - length / 2 + shift * length;
  from = clamp(start, firstTime, lastTime - length);
  to = from + length;
  const ticks = [0, 20, 40, 60, 80].map((at) => {
    const tick = element('span', '', utc(from + (length * at) / 100, length < 5000 ? 23 : 19));
    tick.style.left = `${at}%`;
    return tick;
  });
  byId('axis').replaceChildren(...ticks);
  tasks.paint();
}

function timelineKey(event) {
  const move = (by) => {
    const attempts = shown[lane] || [];
    choose(lane, attempts[clamp(attempts.indexOf(chosen) + by, 0, attempts.length - 1)]);
  };
  const actions = {
    ArrowDown: () => choose(lane + 1), ArrowUp: () => choose(lane - 1), ArrowLeft: () => move(-1), ArrowRight: () => move(1),
    PageDown: () => choose(lane + Math.floor(tasks.visible)), PageUp: () => choose(lane - Math.floor(tasks.visible)),
    Home: () => choose(0), End: () => choose(shown.length - 1),
    '+': () => zoom(0.5), '-': () => zoom(2), 0: () => zoom(Infinity), '<': () => zoom(1, -0.5), '>': () => zoom(1, 0.5),
    Enter: () => { const own = chosen ? logsOf(chosen) : []; if (own.length) openLog(own[0]); },
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

// Logs. The lines of all logs are in one sequence of compressed chunks.

const chunks = [...document.querySelectorAll('script.chunk')].map((each) => ({
  node: each, first: Number(each.dataset.first), end: Number(each.dataset.first) + Number(each.dataset.lines),
}));
const unpacked = new Map(); // the chunks that were used last, the newest at the end
const MAX_UNPACKED = 8;
const KEY = (each) => `${each.jobAttempt} ${each.attempt} ${each.task ?? each.name}`;
const logsByAttempt = new Map();
logs.forEach((each, at) => logsByAttempt.set(KEY(each), [...(logsByAttempt.get(KEY(each)) || []), at]));
const logsOf = (attempt) => logsByAttempt.get(KEY(attempt)) || [];
let log = null, hit = -1, search = 0;

const chunkAt = (line) => {
  let low = 0, high = chunks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (chunks[middle].first <= line) low = middle; else high = middle - 1;
  }
  return chunks[low];
};

async function unpack(chunk) {
  const bytes = Uint8Array.from(atob(chunk.node.textContent), (each) => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return (await new Response(stream).text()).split('\n');
}

function linesOf(chunk) { // an array, or a promise while the chunk is decompressed
  const found = unpacked.get(chunk) ?? unpack(chunk).then((lines) => { unpacked.set(chunk, lines); return lines; });
  unpacked.delete(chunk);
  unpacked.set(chunk, found);
  if (unpacked.size > MAX_UNPACKED) unpacked.delete(unpacked.keys().next().value);
  return found;
}

const viewer = new List(byId('lines'), (at) => {
  const row = element('div', at === hit ? 'text hit' : 'text');
  const chunk = chunkAt(log.first + at);
  const lines = linesOf(chunk);
  const isReady = Array.isArray(lines);
  if (!isReady) lines.then(() => viewer.paint());
  const text = isReady ? lines[log.first + at - chunk.first] ?? '' : '…';
  const cut = text.length > MAX_TEXT ? ` … (${text.length - MAX_TEXT} more characters)` : '';
  row.append(element('span', 'number', String(at + 1).padStart(String(log.lines).length)), text.slice(0, MAX_TEXT) + cut);
  return row;
});

const describeLog = (each) =>
  `${each.task}/${each.container}, attempt ${each.attempt} in attempt ${each.jobAttempt} of the job (${each.lines} lines)`;

function openLog(at) {
  if (at >= MAX_OPTIONS) {
    byId('log').options[MAX_OPTIONS]?.remove();
    byId('log').append(new Option(describeLog(logs[at]), at));
  }
  byId('log').value = String(at);
  log = logs[at];
  hit = -1;
  search++;
  byId('found').textContent = log.note || `${log.lines} lines`;
  byId('line').max = log.lines;
  viewer.show(log.lines);
}

async function find() {
  const text = byId('find').value, mine = ++search;
  if (!text || !log) return;
  byId('found').textContent = 'searching…';
  for (let step = 0, at = hit + 1; step <= log.lines; ) { // from the line after the last hit, once around
    if (at >= log.lines) at = 0;
    const chunk = chunkAt(log.first + at);
    const lines = await linesOf(chunk);
    if (mine !== search) return;
    const end = Math.min(chunk.end - log.first, log.lines);
    for (; at < end && step <= log.lines; at++, step++) {
      if (!lines[log.first + at - chunk.first].includes(text)) continue;
      hit = at;
      byId('found').textContent = `line ${at + 1}`;
      viewer.reveal(at);
      return;
    }
  }
  byId('found').textContent = 'not found';
}

// Start

const options = (select, values) => select.append(...values.map(([value, text]) => new Option(text, value)));
for (const each of document.querySelectorAll('.script')) each.hidden = false;
if (report.tasks.length) {
  options(byId('role'), [['', 'all'], ...Object.keys(report.roles).map((role) => [role, role])]);
  options(byId('outcome'), [['', 'all'], ...[...new Set(report.tasks.map((each) => each.state))].map((state) => [state, state])]);
  for (const id of ['role', 'outcome', 'task']) byId(id).addEventListener('input', filter);
  byId('tasks').addEventListener('keydown', timelineKey, true);
  byId('tasks').addEventListener('wheel', (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8);
  }, { passive: false });
  byId('in').addEventListener('click', () => zoom(0.5));
  byId('out').addEventListener('click', () => zoom(2));
  byId('whole').addEventListener('click', () => zoom(Infinity));
  zoom(1);
  filter();
}
if (logs.length) {
  options(byId('log'), logs.slice(0, MAX_OPTIONS).map((each, at) => [at, describeLog(each)]));
  byId('log').addEventListener('input', (event) => openLog(Number(event.target.value)));
  byId('find').addEventListener('keydown', (event) => { if (event.key === 'Enter') find(); });
  byId('next').addEventListener('click', find);
  byId('line').addEventListener('change', (event) => { hit = clamp(event.target.value - 1, 0, log.lines - 1); viewer.reveal(hit); });
  openLog(0);
} else byId('lines').replaceWith(element('p', '', 'There are no logs in this report.'));
const staticEvents = byId('event-list').querySelectorAll('tbody tr').length;
if (report.events.length > staticEvents) {
  const box = element('div', 'list');
  byId('event-list').replaceChildren(box);
  new List(box, (at) => {
    const each = report.events[at];
    return element('div', 'text', `${each.last.slice(0, 19)}Z ${each.type === 'Warning' ? '!' : ' '} ${each.object} ${each.reason}${each.count > 1 ? ` (x${each.count})` : ''}: ${each.message}`);
  }).show(report.events.length);
}
document.documentElement.dataset.ready = 'yes';
