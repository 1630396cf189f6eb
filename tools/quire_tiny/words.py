"""Word lists of the story and chat generators: a small vocabulary, freely combined."""


def _w(text):
    return [part.strip() for part in text.replace("\n", " ").split(",") if part.strip()]


GIRLS = _w("""Lily, Mia, Anna, Emma, Sara, Lucy, Rosa, Ella, Nora, Ruby, Zoe, Ivy, Clara, Maya, Jane,
Amy, Kate, Molly, Daisy, Grace, Alice, Eva, Lena, Nina, Sofia, Julia, Hana, Leila, Mei, Priya, Aisha, Tara,
Olga, Ingrid, Freya, Carmen, Lola, Bella, Sue, Polly, Wendy, Dora, Elsa, Greta, Heidi, Iris, June, Kim,
Luna, Mary, Nell, Olive, Penny, Rita, Stella, Tina, Una, Vera, Willa, Yara, Zara, Fatima, Amara, Sally""")
BOYS = _w("""Tom, Ben, Max, Sam, Leo, Jack, Tim, Finn, Noah, Dan, Oscar, Adam, Peter, Luke, Henry, Theo,
Hugo, Owen, Paul, Nick, Omar, Ravi, Kenji, Ali, Juan, Pedro, Ivan, Lars, Otto, Felix, Emil, Jonas, Karl,
Bob, Bill, Joe, Fred, George, Harry, Jim, Kevin, Liam, Mark, Ned, Oliver, Pablo, Rob, Simon, Toby, Victor,
Will, Zack, Amir, Chen, David, Eli, Frank, Gus, Hassan, Isaac, Jacob, Kofi, Mateo, Nico""")
PET_NAMES = _w("""Pip, Fluffy, Max, Bella, Spot, Coco, Sunny, Nibbles, Snowy, Rusty, Patch, Ginger, Pepper,
Button, Bumble, Biscuit, Hazel, Clover, Pebble, Muffin, Cookie, Ollie, Teddy, Whiskers, Dusty, Misty,
Peanut, Honey, Bruno, Milo, Rex, Tuck, Dot, Fern, Acorn, Berry, Maple, Willow, Ziggy, Bobo, Kiki, Momo""")

SYLLABLES_A = _w("ba, be, bo, da, do, fa, ga, gi, ha, jo, ka, ke, ki, la, li, lo, ma, me, mi, mo, na, ni, no, pa, "
                 "pe, qui, ra, ri, ro, sa, se, si, ta, te, ti, to, va, vi, wa, xa, ya, yo, za, ze, zo, bra, dra, "
                 "fri, gla, kro, pli, sno, tri, tho, sha, cle, el, ar, or, is, al, um")
SYLLABLES_B = _w("lin, ra, mo, ki, na, rik, la, ren, to, bi, dor, san, vo, li, zu, ma, pet, wen, go, ta, ris, den, "
                 "kel, nu, sha, min, lo, fa, gor, bel, vin, rox, dan, tas, ri, del, mar, quin, bert, wick, ton")

# Animals: name -> (small word, home, what it eats, sound or "", number of legs, covering, young)
ANIMALS = {
    "cat": ("soft", "a house", "fish and milk", "meow", 4, "soft fur", "kitten"),
    "dog": ("friendly", "a house", "meat and bones", "woof", 4, "fur", "puppy"),
    "rabbit": ("fluffy", "a hole in the ground", "grass and carrots", "", 4, "soft fur", "bunny"),
    "fox": ("clever", "a den in the forest", "mice and berries", "yip", 4, "red fur", "cub"),
    "bear": ("big", "a cave in the forest", "honey, fish and berries", "growl", 4, "thick fur", "cub"),
    "mouse": ("tiny", "a small hole", "cheese and seeds", "squeak", 4, "gray fur", "pup"),
    "owl": ("wise", "a hole in a tree", "mice", "hoot", 2, "feathers", "owlet"),
    "duck": ("happy", "a pond", "plants and bread", "quack", 2, "feathers", "duckling"),
    "frog": ("green", "a pond", "flies", "croak", 4, "smooth skin", "tadpole"),
    "horse": ("fast", "a stable", "hay and apples", "neigh", 4, "short hair", "foal"),
    "cow": ("gentle", "a farm", "grass", "moo", 4, "short hair", "calf"),
    "pig": ("pink", "a farm", "corn and apples", "oink", 4, "pink skin", "piglet"),
    "sheep": ("woolly", "a farm", "grass", "baa", 4, "wool", "lamb"),
    "goat": ("playful", "a farm or a mountain", "grass and leaves", "maa", 4, "hair", "kid"),
    "hen": ("busy", "a farm", "seeds and corn", "cluck", 2, "feathers", "chick"),
    "squirrel": ("quick", "a nest in a tree", "nuts and seeds", "chatter", 4, "a bushy tail and fur", "kit"),
    "hedgehog": ("shy", "a pile of leaves", "worms and beetles", "", 4, "sharp spines", "hoglet"),
    "deer": ("gentle", "the forest", "leaves and grass", "", 4, "brown fur", "fawn"),
    "wolf": ("gray", "the forest", "meat", "howl", 4, "gray fur", "cub"),
    "lion": ("brave", "the grassland", "meat", "roar", 4, "golden fur", "cub"),
    "tiger": ("strong", "the jungle", "meat", "roar", 4, "striped fur", "cub"),
    "elephant": ("huge", "the grassland", "leaves and fruit", "trumpet", 4, "gray skin", "calf"),
    "monkey": ("funny", "the jungle", "bananas and other fruit", "chatter", 4, "brown fur", "baby monkey"),
    "giraffe": ("tall", "the grassland", "leaves from tall trees", "", 4, "spotted hair", "calf"),
    "zebra": ("striped", "the grassland", "grass", "", 4, "black and white stripes", "foal"),
    "kangaroo": ("bouncy", "the dry land of Australia", "grass", "", 4, "brown fur", "joey"),
    "penguin": ("funny", "the cold south", "fish", "honk", 2, "black and white feathers", "chick"),
    "parrot": ("colorful", "the jungle", "seeds and fruit", "squawk", 2, "bright feathers", "chick"),
    "turtle": ("slow", "a pond or the sea", "plants", "", 4, "a hard shell", "hatchling"),
    "fish": ("shiny", "the water", "small plants", "", 0, "scales", "baby fish"),
    "whale": ("giant", "the sea", "tiny sea animals", "song", 0, "smooth skin", "calf"),
    "dolphin": ("clever", "the sea", "fish", "click", 0, "smooth skin", "calf"),
    "crab": ("careful", "the beach", "small sea animals", "", 10, "a hard shell", "baby crab"),
    "bee": ("busy", "a hive", "nectar from flowers", "buzz", 6, "tiny yellow hairs", "larva"),
    "ant": ("strong", "an ant hill", "crumbs and seeds", "", 6, "a hard body", "larva"),
    "butterfly": ("pretty", "the garden", "nectar from flowers", "", 6, "colorful wings", "caterpillar"),
    "ladybug": ("red", "the garden", "tiny insects", "", 6, "red wings with black dots", "larva"),
    "spider": ("patient", "a web", "flies", "", 8, "tiny hairs", "baby spider"),
    "snail": ("slow", "the garden", "leaves", "", 0, "a round shell", "baby snail"),
    "worm": ("small", "the soil", "old leaves", "", 0, "soft skin", "baby worm"),
    "snake": ("long", "the grass", "mice", "hiss", 0, "scales", "baby snake"),
    "bat": ("sleepy", "a dark cave", "insects", "squeak", 2, "fur and thin wings", "pup"),
    "camel": ("calm", "the desert", "dry grass", "", 4, "brown hair", "calf"),
    "donkey": ("stubborn", "a farm", "hay", "hee-haw", 4, "gray hair", "foal"),
    "beaver": ("busy", "a river", "bark and plants", "", 4, "brown fur", "kit"),
    "otter": ("playful", "a river", "fish", "", 4, "thick fur", "pup"),
    "seal": ("smooth", "the cold sea", "fish", "bark", 0, "short fur", "pup"),
    "swan": ("white", "a lake", "water plants", "", 2, "white feathers", "cygnet"),
    "crow": ("clever", "a tall tree", "seeds and worms", "caw", 2, "black feathers", "chick"),
    "robin": ("cheerful", "a nest in a tree", "worms and berries", "tweet", 2, "brown feathers and a red chest", "chick"),
    "mole": ("quiet", "a tunnel under the ground", "worms", "", 4, "dark fur", "pup"),
    "raccoon": ("sneaky", "a hollow tree", "fruit and fish", "", 4, "gray fur", "kit"),
    "panda": ("calm", "the bamboo forest", "bamboo", "", 4, "black and white fur", "cub"),
    "koala": ("sleepy", "a tree in Australia", "leaves", "", 4, "gray fur", "joey"),
    "hamster": ("round", "a cage with a wheel", "seeds", "squeak", 4, "soft fur", "pup"),
    "goose": ("proud", "a farm", "grass", "honk", 2, "white feathers", "gosling"),
    "octopus": ("clever", "the sea", "crabs", "", 8, "soft skin", "baby octopus"),
    "shark": ("fast", "the sea", "fish", "", 0, "rough skin", "pup"),
    "crocodile": ("hungry", "a warm river", "fish and meat", "", 4, "hard skin", "hatchling"),
    "bird": ("small", "a nest", "seeds and worms", "tweet", 2, "feathers", "chick"),
}
SMALL_PETS = _w("kitten, puppy, bunny, duckling, chick, bird, hedgehog, squirrel, lamb, piglet, turtle, mouse, "
                "fawn, owlet, frog, baby fox, baby seal, foal, kid goat, hamster, robin, butterfly, ladybug, bee")

FANTASY = _w("dragon, fairy, wizard, witch, giant, elf, unicorn, mermaid, ghost, monster, prince, princess, king, "
             "queen, knight, pirate, gnome, troll, snowman, genie, sea monster, young wizard, moon girl, alien, "
             "superhero, magician")
MACHINES = _w("robot, train, boat, car, truck, bus, airplane, rocket, clock, lamp, toy soldier, teddy bear, kite, "
              "balloon, pencil, spoon, teapot, umbrella, chair, shoe, sock, button, candle, drum, book, bicycle, "
              "tractor, lighthouse, computer, submarine, helicopter, spaceship, broom, pillow, doll, cup, bell")
NATURE = _w("cloud, star, tree, flower, snowflake, river, moonbeam, leaf, seed, apple, pumpkin, pebble, raindrop, "
            "sunflower, mushroom, wave, wind, shadow, potato, carrot, cookie, gingerbread man, acorn")
JOBS = _w("baker, farmer, teacher, doctor, painter, fisherman, gardener, sailor, shoemaker, tailor, miller, hunter, "
          "woodcutter, captain, cook, astronaut, scientist, musician, singer, dancer, postman, nurse, builder, "
          "fireman, policeman, clown, shepherd, blacksmith, inventor, traveler, explorer, merchant, librarian, "
          "soldier, detective, writer, pilot, driver, carpenter, beekeeper, zookeeper, clockmaker")
OLD = _w("old man, old woman, young man, young woman, poor man, rich man, boy, girl, child, little boy, little girl, "
         "lady, man, woman, stranger, grandmother, grandfather, baby")

TOYS = _w("ball, kite, doll, drum, toy car, toy boat, teddy bear, toy train, puzzle, book, whistle, yo-yo, hoop, "
          "scooter, bicycle, wagon, toy robot, balloon, flute, jump rope, toy horse, paintbrush, top, bell, "
          "toy dinosaur, toy truck, toy plane, marble, mask, puppet, paper boat, guitar, telescope")
WEAR = _w("hat, scarf, coat, cap, ribbon, sweater, backpack, necklace, bracelet, crown, ring, umbrella, mitten, cape")
TREASURES = _w("key, coin, shell, feather, stone, map, lantern, mirror, box, button, bottle, watch, letter, photo, "
               "basket, lamp, blanket, cup, flower pot, picture, candle, compass, pillow, spoon, music box, notebook")
MATERIAL = _w("wooden, shiny, new, old, little, big, small, golden, silver, pretty, round, soft, special, beautiful, "
              "bright, lovely, tiny, fine, magic, strange, striped, colorful")
COLORS = _w("red, blue, green, yellow, orange, purple, pink, white, black, brown, gray")
FRUIT = _w("apple, banana, pear, orange, peach, plum, cherry, lemon, mango, melon, grape, strawberry")
FOODS = _w("bread, soup, cake, pie, cookies, pancakes, honey, cheese, jam, porridge, pizza, ice cream, rice, noodles, "
           "popcorn, sandwiches, apples, berries, nuts, carrots, corn, muffins, eggs, salad, pasta, cherries, beans")
BAKES = _w("cake, pie, pizza, loaf of bread, chocolate cake, apple pie, carrot cake, berry pie, pot of soup, "
           "birthday cake, fruit salad, bowl of noodles, banana bread, lemon cake, pumpkin pie")
FLOWERS = _w("rose, tulip, sunflower, daisy, lily, violet, poppy")
PLANTS = _w("tomato, pumpkin, carrot, sunflower, bean, strawberry, apple tree, rose, pea, melon, cucumber, tulip")

# Places: (noun phrase, preposition, where one goes)
PLACES = [tuple(p.strip() for p in row.split("|")) for row in """
the park|in|to the park
the garden|in|to the garden
the forest|in|into the forest
the beach|at|to the beach
the lake|by|to the lake
the river|by|to the river
the pond|by|to the pond
the hill|on|up the hill
the meadow|in|to the meadow
the market|at|to the market
the school|at|to the school
the library|in|to the library
the zoo|at|to the zoo
the farm|on|to the farm
the playground|at|to the playground
the village square|in|to the village square
the woods|in|into the woods
the field|in|to the field
the mountain|on|up the mountain
the old bridge|near|to the old bridge
the train station|at|to the train station
the harbor|in|to the harbor
the orchard|in|to the orchard
the castle|near|to the castle
the cave|near|to the cave
the waterfall|near|to the waterfall
the museum|in|to the museum
the valley|in|into the valley
the island|on|to the island
the backyard|in|to the backyard
the old mill|near|to the old mill
the big oak tree|under|to the big oak tree
the lighthouse|near|to the lighthouse
the town|in|to the town
""".strip().splitlines()]

WILD_HOMES = _w("in the forest, near the river, under a big tree, in a green valley, by a quiet pond, on a high hill, "
                "at the edge of the woods, in a warm den, in a sunny meadow, by the sea, deep in the jungle, "
                "behind the old barn, in a hollow tree, near a waterfall")
HOMES = _w("in a small house by the sea, in a little village, in a big city, on a farm, in a yellow house, "
           "near the forest, at the edge of town, in a tall building, in a cottage on a hill, in a quiet town, "
           "next to a river, in a land far away, in a little house with a red door, on a small island, "
           "in a village in the mountains, near a big lake, above a bakery, in a castle made of stone")
HIDING = _w("under the bed, behind the sofa, in the tall grass, under a bush, in an old box, behind a tree, "
            "under the table, on top of a rock, in the mud, behind the door, under a pile of leaves, next to a stone, "
            "in a hollow log, under a bench, behind a big stone, at the bottom of a basket, in a flower pot, "
            "between two rocks, on a branch, beside the path")

TRAITS = _w("kind, brave, curious, clever, shy, cheerful, gentle, quiet, funny, friendly, patient, helpful, playful, "
            "careful, happy, smart, lonely, proud, stubborn, lazy, busy, honest")
HAPPY = _w("happy, glad, proud, very happy, full of joy, so happy, cheerful, pleased")
SAD = _w("sad, very sad, upset, unhappy, worried, lonely")
SCARED = _w("scared, afraid, frightened, nervous, very scared, a little afraid")

OPPOSITES = [tuple(p.split("-")) for p in _w("""big-small, hot-cold, up-down, day-night, happy-sad, fast-slow,
tall-short, light-dark, open-closed, full-empty, new-old, hard-soft, wet-dry, loud-quiet, clean-dirty, early-late,
good-bad, in-out, left-right, near-far, high-low, heavy-light, thick-thin, long-short, young-old, rich-poor,
strong-weak, first-last, black-white, awake-asleep, easy-difficult, brave-afraid, true-false, yes-no, above-below,
inside-outside, push-pull, begin-end, start-stop, give-take, win-lose, love-hate, laugh-cry, sweet-sour,
summer-winter, morning-evening, right-wrong, front-back, top-bottom, before-after, always-never, same-different,
many-few, kind-mean, rough-smooth, deep-shallow, wide-narrow, hungry-full, sick-healthy, beautiful-ugly, friend-enemy,
question-answer, buy-sell, find-lose, remember-forget, north-south, east-west, king-queen, boy-girl""")]

NUMBERS = _w("zero, one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, "
             "fifteen, sixteen, seventeen, eighteen, nineteen, twenty")

WEATHER_OPEN = {
    "sunny": _w("sunny, warm, bright, fine, beautiful, lovely, hot"),
    "rainy": _w("rainy, wet, gray, cloudy"),
    "snowy": _w("snowy, cold, white, frosty"),
    "windy": _w("windy, cool, blowy"),
}
