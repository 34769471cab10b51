/** The game: fruit falls, and a basket catches it. */

export const SIZE = { width: 160, height: 120 };
export const FRUITS = 10;
const SPEED = 120;
const BASKET = { width: 24, height: 8, y: 110 };
const FRUIT = 8;
const GROUND = 118;

/** Make the scene's class; Phaser is a global of the page. */
export function sceneOf(Phaser) {
  return class Catch extends Phaser.Scene {
    constructor() {
      super("catch");
    }

    init({ seed } = {}) {
      this.random = new Phaser.Math.RandomDataGenerator([String(seed ?? Math.random())]);
      [this.caught, this.missed, this.gained] = [0, 0, 0];
    }

    create() {
      this.paint();
      this.add.image(0, 0, "meadow").setOrigin(0);
      this.basket = this.physics.add.image(SIZE.width / 2, BASKET.y, "basket");
      this.basket.setCollideWorldBounds(true).setImmovable(true);
      this.fruit = this.physics.add.image(0, 0, "fruit");
      this.physics.world.setBoundsCollision(true, true, false, false);
      this.fruit.setCollideWorldBounds(true).setBounce(1, 0);
      this.physics.add.overlap(this.basket, this.fruit, () => this.end(true));
      this.keys = this.input.keyboard?.createCursorKeys();
      this.drop();
    }

    /** Draw the pictures, once. */
    paint() {
      if (this.textures.exists("fruit")) return;
      const pen = this.make.graphics({}, false);
      pen.fillStyle(0xbfe3f2).fillRect(0, 0, SIZE.width, SIZE.height);
      pen.fillStyle(0x6fae5c).fillRect(0, GROUND - 4, SIZE.width, SIZE.height);
      pen.generateTexture("meadow", SIZE.width, SIZE.height).clear();
      pen.fillStyle(0x8a5a2b).fillRoundedRect(0, 0, BASKET.width, BASKET.height, 3);
      pen.generateTexture("basket", BASKET.width, BASKET.height).clear();
      pen.fillStyle(0xc8372d).fillCircle(FRUIT / 2, FRUIT / 2, FRUIT / 2);
      pen.generateTexture("fruit", FRUIT, FRUIT).destroy();
    }

    /** Let the next fruit fall. */
    drop() {
      this.fruit.setPosition(this.random.between(FRUIT, SIZE.width - FRUIT), 0);
      this.fruit.body.reset(this.fruit.x, 0);
      this.fruit.setVelocity(this.random.between(-20, 20), this.random.between(60, 90));
      this.fruit.setAngle(0);
      this.tweens.killTweensOf(this.fruit);
      this.tweens.add({ targets: this.fruit, angle: 360, duration: 1000, repeat: -1 });
    }

    /** A fruit was caught, or reached the ground. */
    end(isCaught) {
      if (this.over) return;
      if (isCaught) this.caught++;
      else this.missed++;
      this.gained += isCaught ? 1 : -1;
      if (this.over) this.fruit.setVelocity(0, 0).setVisible(false);
      else this.drop();
    }

    /** Go left (-1), nowhere (0) or right (1). */
    go(way) {
      this.basket.setVelocityX(SPEED * way);
    }

    update() {
      if (this.keys && !this.isDriven) {
        this.go(Number(this.keys.right.isDown) - Number(this.keys.left.isDown));
        if (this.over) this.scene.restart();
      }
      if (this.fruit.y > GROUND) this.end(false);
    }

    get over() {
      return this.caught + this.missed >= FRUITS;
    }

    /** Where things are, from 0 to 1, and how far the fruit is turned. */
    observe() {
      const { basket, fruit } = this;
      const turned = ((fruit.angle + 360) % 360) / 360;
      const seen = [basket.x / SIZE.width, fruit.x / SIZE.width, fruit.y / SIZE.height, turned];
      return Float32Array.from(seen, (each) => Math.min(1, Math.max(0, each)));
    }

    /** Return what was gained since the last time. */
    take() {
      const { gained } = this;
      this.gained = 0;
      return gained;
    }
  };
}
