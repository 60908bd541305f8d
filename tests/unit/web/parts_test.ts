// What plots make of curves, alerts and attempts, and the files they are saved as.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import type {Drawing, Frame} from '../../../daemon/web/src/parts/drawing';
import {Cursor} from '../../../daemon/web/src/parts/drawing';
import {indexAt, lineOf, wantsLog} from '../../../daemon/web/src/parts/lines';
import {lineSvg} from '../../../daemon/web/src/parts/line_svg';
import {attemptMarks, levels, spansOf} from '../../../daemon/web/src/parts/marks';
import {scaleOf} from '../../../daemon/web/src/parts/sparkline';
import {alert, attempt, curve, fakeTheme, run} from './fakes';

test('a value is read off the bucket that covers the cursor, or the one before', () => {
  const made = curve([0, 10, 30], [9, 19, 39], [1, 2, 3]);
  assert.deepEqual([-1, 0, 9, 10, 25, 30, 99].map((x) => indexAt(made, x)), [-1, 0, 0, 1, 1, 2, 2]);
});

test('a bucket is drawn at its middle, with a band where it has more than a step', () => {
  const made = curve([0, 10], [9, 19], [1, 2]);
  assert.deepEqual(lineOf(made), {x: [4.5, 14.5], y: [1, 2], min: undefined, max: undefined});
  assert.deepEqual(lineOf({...made, bucketSteps: 10}).max, [1, 2]);
});

test('one peak wants a logarithmic axis, unless a value is not above zero', () => {
  const flat = Array.from({length: 50}, () => 1);
  const steps = flat.map((_, i) => i);
  const of = (values: number[]) => curve(steps, steps, values);
  assert.equal(wantsLog([of([...flat.slice(1), 1000])]), true);
  assert.equal(wantsLog([of([...flat.slice(1), 50])]), false);
  assert.equal(wantsLog([of([0, ...flat.slice(2), 1000])]), false);
  assert.equal(wantsLog([curve([0, 1], [0, 1], [1, 1000])]), false);
});

test('alerts shade plots: info only the plot of its indicator', () => {
  const alerts = [
    alert('a', {severity: 'warning', resolved_step: '70'}),
    alert('b', {severity: 'info', indicator: 'attn.x', pending_step: '60'})
  ];
  assert.deepEqual(spansOf(alerts, 99, 'train.loss'), [{first: 50, last: 70, kind: 'warning'}]);
  assert.deepEqual(
      spansOf(alerts, 99, 'attn.x'),
      [{first: 50, last: 70, kind: 'warning'}, {first: 60, last: 99, kind: 'info'}]);
});

test('a baseline is marked while its alert lasts, and attempts where they begin', () => {
  const judged = alert('a', {baseline: 1.5, pending_step: '50'});
  assert.deepEqual(
      levels([alert('b'), judged], {indicator: 'train.loss'}, 80),
      [{kind: 'level', at: 1.5, from: 50, to: 80, text: 'baseline'}]);
  assert.deepEqual(levels([judged], {indicator: 'train.lr'}, 80), []);
  assert.deepEqual(
      attemptMarks(run('a', {attempts: [attempt(1, 0, 90), attempt(2, 60, 80)]})),
      [{kind: 'step', at: 60, text: 'attempt 2'}]);
});

test('a cursor tells those who listen, once for each change', () => {
  const cursor = new Cursor();
  const told: (number|null)[] = [];
  const stop = cursor.listen((x) => told.push(x));
  cursor.set(3);
  cursor.set(3);
  cursor.set(null);
  stop();
  cursor.set(4);
  assert.deepEqual(told, [3, null]);
});

test('a spike does not flatten a sparkline', () => {
  const values = Array.from({length: 100}, (_, i) => i === 50 ? 1e6 : 1 + i / 100);
  const steps = values.map((_, i) => i);
  const {x, y} =
      scaleOf({...curve(steps, steps, values.map((value) => Math.min(value, 2))), max: values});
  assert.deepEqual([x(0), x(99)], [1, 139]);
  assert(y(1) - y(1.99) > 20, 'the rest uses the height');
  assert.equal(y(1e6), y(2));
});

const FRAME: Frame = {
  title: 'a <b>',
  width: 100,
  height: 50,
  area: {left: 10, right: 90, top: 0, bottom: 40},
  x: (value) => 10 + value,
  y: (value) => 40 - value,
  xTicks: [{value: 20, label: '20'}],
  yTicks: []
};
const DRAWING: Drawing = {
  lines: [],
  spans: [],
  marks: [],
  first: 0,
  last: 80,
  logarithmic: false
};

test('a drawing has what the canvas has, clipped to the axes', () => {
  fakeTheme();
  const text = lineSvg(FRAME, {
    ...DRAWING,
    lines: [{x: [0, 1, 2], y: [1, NaN, 3], min: [0, 1, 2], max: [2, 3, 4], color: '#123456'}],
    spans: [{first: 5, last: 10, kind: 'critical'}, {first: 200, last: 300, kind: 'critical'}],
    marks: [{kind: 'step', at: 75, text: 'moved & gone'}, {kind: 'level', at: 2, text: 'baseline'}]
  });
  assert.match(text, /<title>a &#60;b&#62;<\/title>/);
  assert.match(text, /<polyline points="10,39 12,37"[^>]*stroke="#123456"/);
  assert.match(text, /<polygon points="10,38 11,37 12,36 12,38 11,39 10,40"/);
  assert.equal(text.split('fill-opacity="0.13"').length, 2);  // one of two spans is in view
  assert.match(text, /text-anchor="end"[^>]*>moved &#38; gone/);
  assert.match(text, /x1="10" x2="90" y1="38" y2="38"/);
});

test('a logarithmic drawing leaves out what is not above zero', () => {
  fakeTheme();
  const text =
      lineSvg(FRAME, {...DRAWING, logarithmic: true, lines: [{x: [0, 1, 2], y: [1, 0, 3]}]});
  assert.match(text, /<polyline points="10,39 12,37"/);
});
