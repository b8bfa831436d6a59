// The addresses of the servers, as the runner gives them (../doc.go).

const addresses = (variable) =>
  (process.env[variable] ?? '').split(',').filter(Boolean).map((address) => {
    const at = address.lastIndexOf(':');
    return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
  });

export const nodes = addresses('CLIENTS_NODES');
export const cluster = addresses('CLIENTS_CLUSTER');
export const sentinels = addresses('CLIENTS_SENTINELS');
export const master = process.env.CLIENTS_MASTER ?? '';
export const target = process.env.CLIENTS_TARGET ?? '';
export const scene = process.env.CLIENTS_SCENE ?? ''; // the only one to show, or nothing: all
export const failsOver = target === 'lockd';

/** Whether the runner wants to see a scene. */
export const asksFor = (name) => scene === '' || scene === name;

/** The address of a node, by any number. */
export const node = (index) => nodes[index % nodes.length];

/** Sends a request to the control port. */
export async function tell(path) {
  const answer = await fetch(process.env.CLIENTS_CONTROL + path, { method: 'POST' });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return text.trim();
}
