// The view of one alert and the list of alerts: what they show and what they ask for.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import type {Evidence} from '../../../daemon/web/src/base/api';
import {findAlert, loadContext} from '../../../daemon/web/src/views/alert/fetch';
import {evidenceOf, movedAt, plotsOf, stepsAround, stepsToLookAt} from '../../../daemon/web/src/views/alert/state';
import {loadAll, loadOwn} from '../../../daemon/web/src/views/alerts/fetch';
import {partsOf, wantedBy} from '../../../daemon/web/src/views/alerts/state';
import {Counts, grouped, judges, matching} from '../../../daemon/web/src/views/rules/state';
import {alert, at, FakeDaemon, run, signal, step} from './fakes';

const evidence = (indicator: string, step?: number, layers: number[] = []): Evidence => ({
  rule: `${indicator}_high`,
  indicator,
  layers,
  supports: true,
  text: '',
  ...step === undefined ? {} : {step: String(step)}
});

test('evidence that moved comes first, and its plots in the order in which it moved', () => {
  const found = alert('a', {
    evidence: [evidence('quiet'), evidence('x', 40, [3, 4]), evidence('y', 45), evidence('x', 50)]
  });
  assert.deepEqual(evidenceOf(found).map((one) => one.indicator), ['x', 'y', 'x', 'quiet']);
  assert.deepEqual(plotsOf(found), [
    {indicator: 'x', layer: 3}, {indicator: 'y', layer: undefined},
    {indicator: 'train.loss', layer: undefined}
  ]);
  assert.equal(movedAt(found, 'y'), 45);
  assert.equal(movedAt(found, 'quiet'), 50);
});

test('an alert has six plots at most', () => {
  const many = Array.from({length: 9}, (_, i) => evidence(`x${i}`, i));
  assert.equal(plotsOf(alert('a', {evidence: many})).length, 6);
});

test('plots reach around the alert, and not beyond the run', () => {
  const long = run('a', {attempts: [{...run('a').attempts[0]!, last_step: '5000'}]});
  const of = (more: object) => alert('a', {pending_step: '1000', ...more});
  assert.deepEqual(stepsAround(of({resolved_step: '1100'}), long), {first: 900, last: 1200});
  assert.deepEqual(stepsAround(of({resolved_step: '3000'}), long), {first: 400, last: 3600});
  assert.deepEqual(stepsAround(of({}), long), {first: 0, last: 5000});
  assert.deepEqual(stepsToLookAt(of({})), {first: 900, last: 1100});
});

test('an alert is found by its id, with the clock of its first step', async () => {
  const daemon = new FakeDaemon({
    'api/v1/alerts': () => ({alerts: [alert('x'), alert('y')]}),
    'api/v1/steps': () => ({steps: [step(50, 7)]}),
    'api/v1/silences': () => ({silences: []})
  });
  assert.equal((await findAlert('a', 'y', signal))?.rule, 'y');
  assert.equal(await findAlert(null, 'z', signal), null);
  assert.deepEqual(await loadContext(alert('y'), signal), {beganNs: '7000000000', silences: []});
  assert(daemon.asked.includes('api/v1/steps?run=a&first_step=50&last_step=50'));
  assert(daemon.asked[1]?.startsWith('api/v1/alerts?limit='));
});

test('alerts are shown by state; info and other severities only when asked for', () => {
  const alerts = [
    alert('a'), alert('b', {severity: 'warning', state: 'ALERT_STATE_RESOLVED'}),
    alert('c', {severity: 'info'}), alert('d', {state: 'ALERT_STATE_PENDING'})
  ];
  const names = (search: string) => {
    const {firing, pending, over, shown, hidden} = partsOf(alerts, wantedBy(at(search)));
    return [firing, pending, over].map((part) => part.map((one) => one.rule).join('')).join('|') +
        ` ${shown} ${hidden}`;
  };
  assert.equal(names(''), 'a|d|b 3 1');
  assert.equal(names('?info=1'), 'ac|d|b 4 0');
  assert.equal(names('?severity=warning'), '||b 1 3');
});

test(
    'alerts of all runs come with how many runs there are, a run\'s own with its events',
    async () => {
      new FakeDaemon({
        'api/v1/alerts': (query) => ({alerts: query.get('run') === 'a' ? [alert('x')] : []}),
        'api/v1/runs': () => ({runs: [run('a'), run('b')]}),
        'api/v1/runs/a': () => ({run: run('a')}),
        'api/v1/events': () => ({events: []})
      });
      assert.deepEqual(await loadAll(signal), {alerts: [], runs: 2});
      assert.deepEqual(
          await loadOwn('a', signal), {run: run('a'), alerts: [alert('x')], events: []});
      assert.deepEqual(await loadOwn('z', signal), {asked: 'z', there: [run('a'), run('b')]});
    });

test('rules are filtered, grouped by file and counted', () => {
  const rule = (name: string, group: string, indicator = 'train.loss') =>
      ({name, group, indicator, severity: 'warning', file: 'r.yaml', summary: '', line: 1});
  const rules =
      [rule('a', 'g'), rule('b', ''), rule('c', 'g', 'attn.x'), rule('d', 'signatures', '')];
  assert.deepEqual(matching(rules, 'ATTN').map((one) => one.name), ['c']);
  assert.deepEqual(
      grouped(rules).map(([title, list]) => [title, list.length]),
      [['g · r.yaml', 2], ['r.yaml', 1], ['signatures · r.yaml', 1]]);
  assert.deepEqual(
      rules.map(judges), ['train.loss', 'train.loss', 'attn.x', 'several rules together']);
  assert.equal(judges(rule('e', 'g', '')), 'the run itself');
  const counts = new Counts([alert('a'), alert('a', {state: 'ALERT_STATE_RESOLVED'}), alert('a')]);
  assert.deepEqual([counts.of('a'), counts.of('z')], [{firing: 2, over: 1}, {firing: 0, over: 0}]);
});
