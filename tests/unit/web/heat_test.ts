// The layer × unit maps: what they show and what they ask for.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {loadAtStep, loadOverSteps, loadSeries} from '../../../daemon/web/src/views/heat/fetch';
import {ATTENTION, ROUTER} from '../../../daemon/web/src/views/heat/pages';
import {cellAt, heatState, indicatorsOf, plotsOf} from '../../../daemon/web/src/views/heat/state';

import {at, bucket, buckets, FakeDaemon, head, points, series, signal} from './fakes';

const MAX = 'attn.logits.max';
const HEADS = [head(MAX, 2, 0), head(MAX, 1, 0), head(MAX, 1, 3)];
const STEPS = {
  first: 10,
  last: 900
};

test('a page offers its own indicators, the preferred one first', () => {
  const all = new Map([
    ['train.loss', [series('train.loss')]], [MAX, HEADS], ['attn.a', [head('attn.a', 1, 0)]],
    ['attn.run', [series('attn.run')]]
  ]);
  assert.deepEqual(indicatorsOf(ATTENTION, at(''), all), {ids: ['attn.a', MAX], shown: MAX});
  assert.equal(indicatorsOf(ATTENTION, at('?indicator=attn.a'), all).shown, 'attn.a');
  assert.equal(indicatorsOf(ATTENTION, at('?indicator=train.loss'), all).shown, MAX);
  assert.deepEqual(indicatorsOf(ROUTER, at(''), all), {ids: [], shown: ''});
});

test('layer and step are those of the address, as far as the run has them', () => {
  const of = (search: string) => heatState(ATTENTION, at(search), MAX, HEADS, STEPS);
  assert.deepEqual(of(''), {
    indicator: MAX,
    over: false,
    layers: [1, 2],
    units: [0, 3],
    layer: 1,
    layerUnits: [0, 3],
    steps: STEPS,
    step: 900,
    unit: null
  });
  const asked = of('?over=steps&layer=2&step=5&unit=0');
  assert.deepEqual(
      [asked.over, asked.layer, asked.layerUnits, asked.step, asked.unit], [true, 2, [0], 10, 0]);
  assert.equal(of('?layer=7').layer, 1);
  assert.deepEqual(heatState(ATTENTION, at(''), MAX, [], null).steps, {first: 0, last: 1});
});

test('a cell is a layer and a unit in both directions', () => {
  const state = heatState(ATTENTION, at('?layer=1'), MAX, HEADS, STEPS);
  assert.deepEqual(cellAt(state, 1, 0), {layer: 2, unit: 0});
  assert.deepEqual(cellAt({...state, over: true}, 1, 77), {layer: 1, unit: 3});
  assert.equal(cellAt(state, 5, 0), null);
});

test('plots are those of the opened cell and of the page that the run has', () => {
  const state = heatState(ATTENTION, at('?layer=1&unit=3'), MAX, HEADS, STEPS);
  const has = new Map([[MAX, HEADS]]);
  assert.deepEqual(
      plotsOf(ATTENTION, state, has),
      {details: [{indicator: MAX, layer: 1, unit: '3'}], overview: [{indicator: MAX}]});
  assert.deepEqual(plotsOf(ATTENTION, {...state, unit: null}, has).details, []);
});

test('at a step a cell has its newest value and says how old it is', async () => {
  const daemon = new FakeDaemon({
    'api/v1/points': () => ({
      results: [
        points(head(MAX, 1, 3), [[880, 5]]),
        buckets(head(MAX, 2, 0), [bucket(512, 896, 4, {last: 6})]), points(head(MAX, 1, 0), []),
        points(head(MAX, 9, 9), [[1, 1]])
      ]
    })
  });
  const state = heatState(ATTENTION, at(''), MAX, HEADS, STEPS);
  const grid = await loadAtStep(ATTENTION, 'a', state, signal);
  assert.deepEqual(grid, {
    rows: [1, 2],
    columns: [0, 3],
    values: [[NaN, 5], [6, NaN]],
    ages: [[NaN, 880], [896, NaN]]
  });
  assert.deepEqual(
      daemon.asked,
      ['api/v1/points?run=a&indicator=attn.logits.max&unit=head&first_step=388&last_step=900&' +
       'buckets_max=1&limit=100000']);
});

test('over steps the columns are the buckets that have values', async () => {
  const daemon = new FakeDaemon({
    'api/v1/points': () => ({
      results: [
        buckets(head(MAX, 1, 0), [bucket(0, 7, 1), bucket(16, 23, 2)]),
        buckets(head(MAX, 1, 3), [bucket(16, 23, 3), bucket(32, 39, 4)])
      ]
    })
  });
  const state = heatState(ATTENTION, at('?over=steps&layer=1'), MAX, HEADS, STEPS);
  const grid = await loadOverSteps(ATTENTION, 'a', state, signal);
  assert.deepEqual(grid.columns, [0, 16, 32]);
  assert.deepEqual(grid.values, [[1, 2, NaN], [NaN, 3, 4]]);
  assert.match(daemon.asked[0] ?? '', /unit=head&layer=1&buckets_max=160/);
});

test('series of one indicator can be asked for by themselves', async () => {
  new FakeDaemon(
      {'api/v1/series': (query) => ({series: query.get('indicator') === MAX ? HEADS : []})});
  assert.deepEqual(await loadSeries('a', MAX, signal), HEADS);
});

test('the router\'s load in words', () => {
  const says = (values: number[][]) => ROUTER.says?.([3, 5], values);
  assert.equal(
      says([[1, 1.5], [0.9, NaN]]),
      'Every expert gets at least 1 % of the even load. The busiest gets 1.5 times the even load.');
  assert.equal(
      says([[1, 1], [0.001, 2]]),
      'Under 1 % of the even load at this step: layer 5: 0. The busiest gets 2 times the even load.');
});
