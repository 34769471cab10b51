/** Watchers of instances, in the form `show`. */

import { openStream } from "./server.js";

/**
 * Watch an instance until `close` is called, or it ends.
 *
 * @param {string} id Of the instance.
 * @param {{ fps: number, share: number, size: number, session?: string }} wanted With the
 *   session that steps the instance, each of its steps is shown.
 * @param {(update: object, picture: Blob | null) => void} onUpdate
 * @param {(error: Error | null) => void} onEnd Called once, without an error at its end.
 */
export function watch(id, wanted, onUpdate, onEnd) {
  let socket = null;
  let isOver = false;
  const again = async () => {
    try {
      socket = await openStream(`/v1/envs/${encodeURIComponent(id)}/stream`, { watch: 1, form: "show", ...wanted });
    } catch (error) {
      if (!isOver) onEnd(error);
      return;
    }
    if (isOver) {
      socket.close();
      return;
    }
    let update = null;
    socket.binaryType = "blob";
    socket.onmessage = ({ data }) => {
      if (isOver) return;
      if (typeof data === "string") {
        update = JSON.parse(data);
        if (!update.picture) onUpdate(update, null);
      } else onUpdate(update, new Blob([data], { type: "image/jpeg" }));
    };
    socket.onclose = ({ code, reason }) => {
      if (isOver) return;
      if (code === 1001) onEnd(null);
      else setTimeout(() => isOver || again(), 1000, reason);
    };
  };
  again();
  return {
    close() {
      isOver = true;
      // Browsers warn of a socket that is closed before it is open.
      if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
      else socket?.close();
    },
  };
}
